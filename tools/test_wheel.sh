#!/bin/sh
# Install the wheel $3 into a fresh environment in the folder $2, with what it requires and nothing else, and run the main
# paths there. $1 is the Python of the development environment; where the machine has no Java, that brings one.
set -eu

developer=$1
folder=$2
wheel=$3
clone=$(pwd)

rm -rf "$folder"
PYTHON=${PYTHON:-$developer} sh tools/venv.sh "$folder" "$wheel"
JAVA_HOME=$("$developer" -m slatespark.spark.java)
export JAVA_HOME
unset PYTHONPATH SPARK_HOME
cd "$folder" # not the clone, whose packages would be found first
exec "$clone/$folder/bin/python" "$clone/tests/packaging/main_paths.py"
