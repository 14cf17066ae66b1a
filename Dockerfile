# The CPU image: Debian's Python 3.11 and the lock.
#
#   docker build -t acer_tf .
#   docker run --rm acer_tf                                       # make demo
#   docker run --rm acer_tf make test
#   docker run --rm -v "$PWD/runs:/acer_tf/runs" acer_tf .venv/bin/python -m acer_tf train ...
FROM debian:bookworm-slim
# libegl1: videos of MuJoCo tasks. With chromium and chromium-driver too, no test of the results page is skipped.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git libegl1 make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /acer_tf
COPY . .
RUN make install
CMD ["make", "demo"]
