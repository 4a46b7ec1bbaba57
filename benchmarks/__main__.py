"""Every benchmark, one after another."""

from benchmarks import loader, plan

if __name__ == "__main__":
    for module in (plan, loader):
        print(f"== {module.__name__}")
        module.main()
