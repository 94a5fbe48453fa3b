#!/bin/sh
# Build the object stores that the tests run on into the folder $1, or leave alone what is current: versitygw and
# fake-gcs-server where Go is installed, Azurite where npm is. What cannot be built is named, and its tests are skipped.
set -eu

VERSITYGW=v1.8.0
FAKE_GCS_SERVER=v1.56.1
AZURITE=3.37.0

mkdir -p "$1/bin"
folder=$(cd "$1" && pwd)

# build NAME VERSION TOOL COMMAND...
build() {
    name=$1 version=$2 tool=$3
    shift 3
    if [ "$(cat "$folder/$name.version" 2>/dev/null)" = "$version" ]; then
        return
    fi
    if ! command -v "$tool" >/dev/null; then
        echo "$name is not built: $tool is not installed."
        return
    fi
    echo "Building $name $version; the first time this takes a minute or two."
    if "$@"; then
        echo "$version" >"$folder/$name.version"
    else
        echo "$name cannot be built."
    fi
}

# -w leaves out what only a debugger needs.
build versitygw $VERSITYGW go env GOBIN="$folder/bin" go install -ldflags=-w "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"
build fake-gcs-server $FAKE_GCS_SERVER go env GOBIN="$folder/bin" go install -ldflags=-w "github.com/fsouza/fake-gcs-server@$FAKE_GCS_SERVER"
build azurite $AZURITE npm npm install --silent --no-audit --no-fund --omit=optional --prefix "$folder" "azurite@$AZURITE"
if [ -x "$folder/node_modules/.bin/azurite-blob" ]; then
    ln -sf ../node_modules/.bin/azurite-blob "$folder/bin/azurite-blob"
fi
