"""The environments of the peers: the libraries of a format, mostly a PySpark and jars that fit it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from benchmarks.worker import REPOSITORY

# What Spark brings itself: another copy of it would only lie there.
SPARK_BRINGS: Final = ("org.apache.spark", "org.apache.hadoop", "org.apache.parquet", "org.scala-lang", "org.slf4j")


@dataclass(frozen=True)
class Environment:
    """An environment for one format.

    Attributes
    ----------
    name : of the format
    package : the one that pip gets: a release of PySpark, or the format itself
    artifact : of the format, as Maven names it, with its version: the newest that is served and runs with a PySpark;
        None for a format that needs no Spark
    has_slatespark : whether slatespark runs in it, which needs PySpark 4.1
    """

    name: str
    package: str
    artifact: str | None = None
    has_slatespark: bool = True

    @property
    def folder(self) -> Path:
        """Where it is."""
        return REPOSITORY / ".matrix" / f"peers-{self.name}"

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    @property
    def jars(self) -> list[Path]:
        """The jars of the format; none before it is built."""
        return sorted((self.folder / "jars").glob("*.jar"))

    def is_built(self) -> bool:
        """Tell whether it is there, with these versions."""
        return self._installed() is not None and (
            self.artifact is None or (self._stamp.is_file() and self._stamp.read_text() == self._pom(self.artifact))
        )

    def build(self) -> None:
        """Build it, unless it is current."""
        packages = ["-e", ".", "slatedb==0.17.0"] if self.has_slatespark else ["numpy", "pyarrow", "setuptools"]
        command = ["sh", "tools/venv.sh", str(self.folder), *packages, self.package]
        subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "PYTHON": sys.executable}, check=True)
        if self.artifact is not None and not self.is_built():
            self._fetch_jars(self.artifact)

    def versions(self) -> str:
        """Return what a reader of figures must know: the versions of the format, and of Spark."""
        if self.artifact is None:
            return f"{self._package_name} {self._installed()}"
        _, name, version = self.artifact.split(":")
        return f"{name} {version}, Spark {self._installed()}"

    @property
    def _package_name(self) -> str:
        return self.package.partition("==")[0]

    def _installed(self) -> str | None:
        """Return the version of the package; None before the environment is built."""
        sites = [str(site) for site in (self.folder / "lib").glob("python*/site-packages")]
        return next((one.version for one in distributions(path=sites) if one.name.lower() == self._package_name), None)

    @property
    def _stamp(self) -> Path:
        return self.folder / "jars" / "pom.xml"

    def _fetch_jars(self, artifact: str) -> None:
        folder = self.folder / "jars"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (self.folder / "pom.xml").write_text(self._pom(artifact))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        subprocess.run([*command, "-DincludeScope=runtime"], cwd=self.folder, check=True)
        (self.folder / "pom.xml").rename(self._stamp)

    @staticmethod
    def _pom(artifact: str) -> str:
        """Return a Maven project that depends on the format and on nothing that Spark brings."""
        project = ET.Element("project", xmlns="http://maven.apache.org/POM/4.0.0")
        for name, text in {"modelVersion": "4.0.0", "groupId": "peers", "artifactId": "peers", "version": "1"}.items():
            ET.SubElement(project, name).text = text
        dependency = ET.SubElement(ET.SubElement(project, "dependencies"), "dependency")
        for name, text in zip(("groupId", "artifactId", "version"), artifact.split(":"), strict=True):
            ET.SubElement(dependency, name).text = text
        exclusions = ET.SubElement(dependency, "exclusions")
        for group in SPARK_BRINGS:
            exclusion = ET.SubElement(exclusions, "exclusion")
            ET.SubElement(exclusion, "groupId").text = group
            ET.SubElement(exclusion, "artifactId").text = "*"
        ET.indent(project)
        return ET.tostring(project, encoding="unicode") + "\n"


ENVIRONMENTS: Final = {
    one.name: one
    for one in (
        Environment("delta", "pyspark==4.2.*", "io.delta:delta-spark_4.2_2.13:4.4.0"),
        Environment("iceberg", "pyspark==4.1.*", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),
        Environment("paimon", "pyspark==3.5.*", "org.apache.paimon:paimon-spark-3.5:0.9.0", has_slatespark=False),
        Environment("hudi", "pyspark==3.5.*", "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0", has_slatespark=False),
        Environment("delta-rs", "deltalake==1.6.*"),
    )
}
