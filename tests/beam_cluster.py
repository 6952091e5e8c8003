"""Runs a Beam job service for tests: `python beam_cluster.py PORTS_FILE POOL_PORT [POOL_PORT ...]`.

Beam's own (`apache_beam.runners.portability.local_job_service_main`) asks for one worker a job,
whatever the flags say. This one asks for as many as there are worker pools, one of each: as a
cluster has a pool on each machine, all known under one address. It writes two ports to PORTS_FILE:
that of the job service, and that under which jobs find the pools.
"""

import itertools
import os
import signal
import socket
import sys
from concurrent import futures

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc, beam_job_api_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import fn_runner


class Pools(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Passes each request for a worker on to the next pool."""

    def __init__(self, ports):
        channels = [grpc.insecure_channel(f"localhost:{port}") for port in ports]
        stubs = [beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(c) for c in channels]
        self._next = itertools.cycle(stubs)

    def StartWorker(self, request, context):  # noqa: N802 (Beam's name)
        return next(self._next).StartWorker(request, wait_for_ready=True, timeout=60)


def serve(ports_file, pool_ports):
    """Serves until it is killed."""
    # Workers are told to report to this name, which need not be that of the loopback device.
    socket.getfqdn = lambda name="": "localhost"

    class Job(local_job_service.BeamJob):
        def _invoke_runner(self):
            self.set_state(beam_job_api_pb2.JobState.RUNNING)
            runner = fn_runner.FnApiRunner(provision_info=self._provision_info)
            runner._num_workers = len(pool_ports)
            return runner.run_via_runner_api(self._pipeline_proto, self.pipeline_options())

    job_port = local_job_service.LocalJobServicer(beam_job_type=Job).start_grpc_server()
    front = grpc.server(futures.ThreadPoolExecutor(4))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(Pools(pool_ports), front)
    front_port = front.add_insecure_port("localhost:0")
    front.start()
    with open(f"{ports_file}.tmp", "w") as stream:
        stream.write(f"{job_port} {front_port}")
    os.rename(f"{ports_file}.tmp", ports_file)
    signal.pause()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
