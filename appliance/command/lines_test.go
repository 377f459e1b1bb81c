package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// linesOfCluster are the lines from nothing to an installed cluster, as a person enters them.
const linesOfCluster = `
landfall cluster create east --version 4.20 --base-domain example.com --control-planes 1 --pull-secret-file pull-secret.json
landfall infra-env create east --cluster east --ssh-key-file id.pub
landfall image download --infra-env east -o east.iso
landfall simulate hosts --infra-env east --count 1
landfall cluster wait east --for ready --timeout 5m
landfall cluster install east
landfall cluster wait east --for installed --timeout 10m
landfall events --cluster east -o json
landfall host list --cluster east -o wide
landfall kubeconfig --cluster east -o east.kubeconfig
landfall cluster delete east --yes`

// linesOfFile create a cluster by one file, change it and create its copy.
const linesOfFile = `
landfall cluster create -f west.yaml --pull-secret-file pull-secret.json
landfall cluster set west --ntp 192.0.2.1 tags=a,b
landfall cluster export west -o exported.yaml
landfall cluster show west -o jsonpath={.additional_ntp_source}
landfall manifest add west.yaml --cluster west --name 50-west.yaml --dry-run
landfall infra-env set west image_type=full-iso
landfall infra-env list --cluster west -o name
landfall infra-env delete west --yes
landfall cluster delete west --yes
landfall cluster create -f exported.yaml --pull-secret-file pull-secret.json
landfall cluster export west
landfall infra-env delete west --yes
landfall cluster delete west --yes`

// westFile describes a cluster with its infra-env.
const westFile = `
name: west
base_dns_domain: example.com
openshift_version: "4.20"
control_plane_count: 3
api_vips: [{ip: 192.168.100.4}]
ingress_vips: [{ip: 192.168.100.5}]
infra_env:
  image_type: minimal-iso
`

// TestLines_fromNothingToCluster enters the lines against a demo in another process's place: over
// HTTP, with LANDFALL_URL alone.
func TestLines_fromNothingToCluster(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("TMPDIR", dir) // for the log of the simulated hosts
	require.NoError(t, os.WriteFile("pull-secret.json", []byte(demoPullSecret), 0o600))
	require.NoError(t, os.WriteFile("id.pub", []byte("ssh-ed25519 "+
		"AAAAC3NzaC1lZDI1NTE5AAAAIGVOUZp6kXjCCk3Gk3eMUpcnLBNMHR4g9/1FQZM2r+rt core\n"), 0o600))
	require.NoError(t, os.WriteFile("west.yaml", []byte(westFile), 0o600))
	printed := map[string]string{}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &alarm{text: "  data "}
	out.ring = sync.OnceFunc(func() {
		go func() {
			defer interrupt()
			_, at, _ := strings.Cut(out.String(), "http://")
			if err := os.Setenv("LANDFALL_URL", "http://"+strings.Fields(at)[0]); err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(strings.TrimSpace(linesOfCluster + linesOfFile)) {
				got := landfall(t, strings.Fields(line)[1:]...)
				if got.code != 0 {
					t.Errorf("%s ended with %d: %s", line, got.code, got.errOut)
					return
				}
				endSimulated(t, got.out)
				printed[strings.Join(strings.Fields(line)[1:3], " ")] += got.out
			}
		}()
	})
	t.Setenv("LANDFALL_URL", "") // restored after the test
	var errOut terminal
	require.Zero(t, run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--hosts", "1", "--bmcs", "0", "--speed",
		"1000"}, out, &errOut), errOut.String())

	require.Contains(t, printed["cluster create"], "The cluster east was created with OpenShift 4.20.")
	require.Contains(t, printed["image download"], "east.iso: ")
	require.FileExists(t, filepath.Join(dir, "east.iso"))
	require.Contains(t, printed["simulate hosts"], "1 simulated host is registered")
	require.Contains(t, printed["cluster wait"], "The cluster east is installed after ")
	var events []struct{ Message string }
	require.NoError(t, json.Unmarshal([]byte(printed["events --cluster"]), &events))
	require.Equal(t, "Cluster east was created.", events[0].Message)
	require.Regexp(t, `host-1 +east +master +installed`, printed["host list"])
	kubeconfig, err := os.ReadFile("east.kubeconfig")
	require.NoError(t, err)
	require.Contains(t, string(kubeconfig), "https://api.east.example.com:6443")
	require.Contains(t, printed["cluster delete"], "The cluster east was removed")

	require.Contains(t, printed["cluster create"], "The cluster west was created with OpenShift 4.20.")
	require.Contains(t, printed["cluster create"], "Its infra-env west was created.")
	exported, err := os.ReadFile("exported.yaml")
	require.NoError(t, err)
	require.Contains(t, string(exported), "tags: a,b\n")
	require.Equal(t, string(exported), printed["cluster export"], "the file creates the same cluster")
	require.Equal(t, "192.0.2.1\n", printed["cluster show"])
	require.Contains(t, printed["manifest add"], "Nothing was changed. The request would be:\nPOST ")
	require.Contains(t, printed["infra-env set"], "The infra-env west was changed.")
	require.Equal(t, "infra-env/west\n", printed["infra-env list"])
}

var simulatedProcess = regexp.MustCompile(`running in the background \(process (\d+)\)`)

// endSimulated ends the hosts that a line has started, if it has, after the test.
func endSimulated(t *testing.T, printed string) {
	t.Helper()
	found := simulatedProcess.FindStringSubmatch(printed)
	if found == nil {
		return
	}
	id, err := strconv.Atoi(found[1])
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { require.NoError(t, syscall.Kill(id, syscall.SIGKILL)) })
}
