"""
Runs the client as a command: `claviger-client` and `python3 -m claviger_client`.

The last lines of the module do this where the module is a program. So it runs once more as one: this file needs to know
neither its arguments nor its statuses.
"""
import runpy


def main() -> None:
    runpy.run_module("claviger_client.__init__", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
