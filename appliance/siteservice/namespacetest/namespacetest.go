// Package namespacetest runs the tests of a package in a network namespace of their own.
package namespacetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Inside is a variable of the environment: processes with it are in the namespace.
const Inside = "LANDFALL_TEST_NAMESPACE"

// Main is called by TestMain. If namespaces are not permitted, it runs no test, and writes what was
// not tested.
func Main(m *testing.M, tested string) {
	if os.Getenv(Inside) != "" {
		os.Exit(m.Run())
	}
	arguments := []string{"--net"}
	if os.Geteuid() != 0 {
		arguments = append(arguments, "--user", "--map-root-user")
	}
	if err := exec.Command("unshare", append(arguments, "true")...).Run(); err != nil {
		fmt.Fprintf(os.Stderr, "network namespaces are not permitted; %s were not tested: %v\n", tested, err)
		os.Exit(0)
	}
	program := exec.Command("unshare", append(append(arguments, os.Args[0]), os.Args[1:]...)...)
	program.Env = append(os.Environ(), Inside+"=1")
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	err := program.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
