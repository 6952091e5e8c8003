# tfbio on the machine of a TPU (docs/tpu.md). In a clone of the repository:
#
#   docker build --file=docker/tpu.Dockerfile --tag=tfbio:tpu .
#   docker run --rm --privileged --network=host --volume="$PWD:/work" --user="$(id -u)" \
#       tfbio:tpu pretrain --help
#
# Where root alone may open the TPU's device, --user=root is needed.
FROM python:3.11.14-slim-bookworm AS wheel
COPY . /tfbio
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels /tfbio

FROM python:3.11.14-slim-bookworm
ARG EXTRAS=gcs
COPY constraints.txt /tfbio/
# Stands in for `tensorflow`, which other packages ask for, and installs tensorflow-tpu.
COPY requirements/tpu /tfbio/requirements/tpu
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --constraint=/tfbio/constraints.txt \
        /tfbio/requirements/tpu "$(echo /wheels/*.whl)[$EXTRAS]" \
    && useradd --create-home --uid=1000 tfbio
USER 1000
WORKDIR /work
ENTRYPOINT ["tfbio"]
CMD ["--help"]
