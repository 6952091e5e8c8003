# tfbio on CPUs, with data preparation and plots. In a clone of the repository:
#
#   docker build --file=docker/cpu.Dockerfile --tag=tfbio .
#   docker run --rm --volume="$PWD:/work" --user="$(id -u)" tfbio pretrain --help
#
# docs/serving.md has the commands for an image with `tfbio serve`.
FROM python:3.11.14-slim-bookworm AS wheel
COPY . /tfbio
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels /tfbio

FROM python:3.11.14-slim-bookworm
ARG EXTRAS=data,report
COPY constraints.txt /tfbio/
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --constraint=/tfbio/constraints.txt \
        "$(echo /wheels/*.whl)[$EXTRAS]" \
    && useradd --create-home --uid=1000 tfbio
USER 1000
WORKDIR /work
ENTRYPOINT ["tfbio"]
CMD ["--help"]
