package command

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"landfall/appliance/command/outcome"
)

// verbs are lines with what they print: a regular expression, after "fails" for a line that fails.
const verbs = `
cluster create east --version 4.20 --base-domain example.com --control-planes 1 => The cluster east was created
cluster create west --version 4.20 --base-domain example.com --control-planes 1 -o name => \Acluster/west\n\z
infra-env create pool -o name => \Ainfra-env/pool\n\z
cluster import away --api api.away.example.com --openshift-id 5ab0b7ac-9a0d-4a5d-9bd5-2b1b1c0a1c11 -o jsonpath={.name} => \Aaway\n\z
cluster delete away --yes => The cluster away was removed
simulate hosts --infra-env pool --first 5 --count 1 => 1 simulated host is registered
host list --infra-env pool --watch => host-5
host bind host-5 => fails --cluster is missing
host bind host-5 --cluster nowhere => fails the cluster nowhere does not exist
host bind host-99 --cluster east => fails the host host-99 does not exist
host bind host-5 --cluster east --dry-run => Nothing was changed.*\nPOST .*/actions/bind\ncluster_id: .*\nThe appliance would accept
cluster install east --dry-run => fails .
image short-url --infra-env pool --renew --dry-run => did not check it
host list --cluster east => No hosts
host bind host-5 --cluster east => The host host-5 is bound to the cluster east\.
host list --cluster east => host-5 +east
host bind host-5 --cluster west => fails .
host unbind host-5 => The host host-5 belongs to no cluster now\.
host list --cluster east => No hosts
host approve host-5 => The host host-5 is approved\.
api GET /apis/agent-install.openshift.io/v1beta1/agents -o jsonpath={.items[*].spec.approved} => true
host set host-5 --role nonsense => fails --role "nonsense" is invalid; expected one of auto-assign, master, worker
host set host-5 --name renamed -o name => \Ahost/renamed\n\z
host show renamed => Name +renamed
host reset renamed --yes => fails .
image download --infra-env pool -o pool.iso => pool.iso: .*SHA-256
image verify pool.iso --infra-env pool => pool.iso is the present image of pool
image verify other.iso --infra-env pool => fails other.iso is not the present image of pool
network check -f networks.yaml --infra-env pool => host 0: eno1
network check -f networks.yaml --infra-env pool => host 0: warning: routes.config.0..next-hop-address
network set -f networks.yaml --infra-env pool => pool
network show --infra-env pool => 52:54:00:00:00:01
network check -f broken.yaml --infra-env pool => fails host 0
image verify pool.iso --infra-env pool => fails download the image again
host remove renamed => fails without a terminal, this command needs --yes
host remove renamed --yes => The host renamed was removed\.
host show renamed => fails the host renamed does not exist
cluster create -f full.yaml => The cluster full was created
infra-env create spare => The infra-env spare was created
simulate hosts --infra-env spare --first 6 --count 1 => 1 simulated host is registered
host list --infra-env spare --watch => host-6
host bind host-6 --cluster full => The host host-6 is bound to the cluster full\.
host list --cluster full --watch => master  known
host set host-6 --role worker node_labels=[{"key":"site","value":"a"}] => The host host-6 was changed\.
cluster export full -o first.yaml => ^$
host set host-6 --role master node_labels=[] => The host host-6 was changed\.
cluster apply-hosts full -f first.yaml => The host host-6 has the settings of the file\.
cluster export full -o second.yaml => ^$
host remove host-6 --yes => The host host-6 was removed\.
cluster delete full --yes => The cluster full was removed
cluster create -f first.yaml --dry-run => POST /api/assisted-install/v2/clusters/ID/manifests
cluster create -f first.yaml => Its manifest 50-a.yaml was added\.\n(Not registered yet: host-6\.|The host host-6 has the settings)
cluster export full -o third.yaml => ^$
cluster delete full --yes => The cluster full was removed
manifest add manifest.yaml --cluster west => The manifest manifest.yaml was added
manifest replace manifest.yaml --cluster west => was replaced
manifest show manifest.yaml --cluster west => kind: ConfigMap
cluster export west => manifests:\n- content: 
cluster cancel east --yes => fails .
cluster reset east --yes => fails .
cluster install-config west => "apiVersion": "v1"
cluster create -f mac.yaml => fails hosts.0. has the MAC address "52:54:00:00:00:9G"; write one such as
cluster show fourth => fails does not exist
cluster create -f two.yaml -o name => \Acluster/two\nIts infra-env first was created\.\nIts infra-env second was created\.\nIts manifest 50-a.yaml was added\.\nNot registered yet: master-0\.
cluster export two => infra_envs:
cluster create bare --version 4.20 --base-domain example.com --control-planes 1 => The cluster bare was created
infra-env create bare --cluster bare => The infra-env bare was created
simulate hosts --infra-env bare --first 7 --count 1 --faults no-image => 1 simulated host is registered
cluster wait bare --for ready --timeout 1m => The cluster bare is ready
cluster install bare --wait => fails the installation of the cluster bare could not be prepared: .* can't pull
cluster wait bare --timeout 1m => fails the installation of the cluster bare could not be prepared
cluster delete bare --yes => The cluster bare was removed
logs --cluster demo -o logs.tar => logs.tar: 
api GET clusters -o jsonpath={[*].name} => two
api PATCH clusters/none tags=a => fails .
events --cluster demo --severity warning,error -o name => 
overview => Clusters +4
cluster progress demo => Host host-1
overview -o jsonpath={.hosts} => installed
host missing => Lines to try on a machine
iso list -o name => ^iso/
iso list --json => --json is now -o json
ams status -o jsonpath={.state} => fails .
mirror show -o yaml => :
status -o name => ^appliance/site
`

const twoFile = `
name: two
base_dns_domain: example.com
control_plane_count: 1
infra_envs: [{name: first, image_type: minimal-iso}, {name: second}]
manifests: [{folder: openshift, file_name: 50-a.yaml, content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}]
hosts: [{macs: ["52-54-00-00-00-99"], host_name: master-0, host_role: master}]
`

// fullFile has a part of each kind. What the API adds to a part is left out.
const fullFile = `
name: full
base_dns_domain: example.com
openshift_version: 4.20.8-standin
control_plane_count: 1
olm_operators: [{name: lvm}]
install_config_overrides: '{"fips":true}'
infra_env:
  image_type: minimal-iso
  kernel_arguments: [{operation: append, value: rd.net.timeout.carrier=30}]
  static_network_config:
  - mac_interface_map: [{mac_address: "52:54:00:00:00:01", logical_nic_name: eno1}]
    network_yaml: "interfaces: [{name: eno1, type: ethernet, state: up}]"
manifests: [{folder: openshift, file_name: 50-a.yaml, content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}]
`

const networksFile = `
- mac_interface_map: [{mac_address: "52:54:00:00:00:01", logical_nic_name: eno1}]
  network_yaml: |
    interfaces:
    - {name: eno1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}}
    routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.3.1, next-hop-interface: eno1}]}
`

// TestVerbs_againstDemo enters lines against a demo and compares what they print.
func TestVerbs_againstDemo(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("TMPDIR", dir) // for the log of the simulated hosts
	t.Setenv("LANDFALL_URL", "")
	for name, text := range map[string]string{"two.yaml": twoFile, "full.yaml": fullFile, "networks.yaml": networksFile,
		"mac.yaml":    "{name: fourth, hosts: [{macs: ['52:54:00:00:00:9G']}]}\n",
		"broken.yaml": "- {mac_interface_map: [], network_yaml: 'a: ['}\n", "other.iso": "another file",
		"manifest.yaml": equalityFiles["manifest.yaml"]} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &alarm{text: "The cluster demo is installed."}
	out.ring = sync.OnceFunc(func() {
		go func() {
			defer interrupt()
			_, at, _ := strings.Cut(out.String(), "http://")
			if err := os.Setenv("LANDFALL_URL", "http://"+strings.Fields(at)[0]); err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(strings.TrimSpace(verbs)) {
				enter(ctx, t, strings.TrimRight(line, "\n"))
			}
		}()
	})
	var errOut terminal
	require.Zero(t, run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--hosts", "1", "--bmcs", "0", "--speed",
		"1000"}, out, &errOut), errOut.String())

	first, third, wanted := fileObject(t, "first.yaml"), fileObject(t, "third.yaml"), fileObject(t, "full.yaml")
	require.Equal(t, first, fileObject(t, "second.yaml"), "the settings of the host are those of the file again")
	require.Subset(t, first["hosts"].([]any)[0], map[string]any{"host_name": "host-6", "host_role": "worker",
		"node_labels": []any{map[string]any{"key": "site", "value": "a"}}})
	delete(first, "hosts")
	delete(third, "hosts") // the machine of host-6 still runs, and may have registered again
	require.Equal(t, first, third, "the file creates the same cluster")
	require.Subset(t, first["infra_env"], wanted["infra_env"])
	delete(wanted, "infra_env")
	require.Subset(t, first, wanted)
}

// fileObject returns the object in a file.
func fileObject(t *testing.T, name string) (object map[string]any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &object))
	return object
}

// unasked are the commands that remove something without a question, with the reason.
var unasked = map[string]string{
	"ams logout":              "landfall ams login repairs it",
	"ams revoke":              "another export contains the same updates",
	"ams token revoke":        "another token replaces it",
	"context remove":          "landfall login repairs it",
	"host unbind":             "landfall host bind repairs it; the appliance refuses it during an installation",
	"logout":                  "landfall login repairs it",
	"registry gc":             "removes only what nothing needs",
	"registry remove":         "landfall registry add repairs it, or the medium itself",
	"release forget":          "landfall release allow repairs it",
	"sealed-images close":     "landfall sealed-images show explains how to open them again",
	"service remove":          "the data directory stays",
	"session end":             "another login repairs it",
	"settings release remove": "landfall settings release add repairs it",
	"token revoke":            "another token replaces it",
	"user reset":              "another reset repairs it",
}

// TestVerbs_removalsAsk asserts that the commands that remove something have --yes or a reason.
func TestVerbs_removalsAsk(t *testing.T) {
	root, _ := newRoot(topFiles())
	verbs := strings.Fields("remove delete revoke leave logout end forget cancel reset unbind gc close")
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "landfall ")
		if !slices.Contains(verbs, cmd.Name()) {
			require.NotContains(t, unasked, name)
			return
		}
		asks := cmd.Flags().Lookup("yes") != nil
		require.NotEqual(t, asks, unasked[name] != "", "%s asks: %t; its reason not to ask: %q", name, asks,
			unasked[name])
	}
	walk(root)
}

// TestVerbs_removalsNeedAnswer runs the removals without a terminal and without --yes.
func TestVerbs_removalsNeedAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s was sent", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"os_images":[{"id":"a1","name":"live.iso"}],"kind":"APIResourceList","resources":[` +
			`{"name":"clusterdeployments","kind":"ClusterDeployment","namespaced":true}],` +
			`"items":[{"metadata":{"name":"east","namespace":"east"}}]}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("LANDFALL_URL", server.URL)
	site := fileOf(t, "site.yaml", "apiVersion: hive.openshift.io/v1\nkind: ClusterDeployment\n"+
		"metadata: {name: east, namespace: east}\nspec: {clusterName: east}\n")
	namespace := fileOf(t, "namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: east}\n")
	for _, line := range []string{"user delete ana", "bmc remove node-1 --power-off", "iso remove a1",
		"mirror remove idms.yaml", "ams leave east", "delete -f " + site,
		"delete -f " + namespace} {
		got := landfall(t, strings.Fields(line)...)
		require.Equal(t, outcome.Usage, got.code, "%s: %s", line, got.errOut)
		require.Contains(t, got.errOut, "without a terminal, this command needs --yes", line)
		fields := strings.Fields(line)
		got = landfallReading(t, strings.NewReader("no\n"), fields...)
		require.Equal(t, outcome.Failure, got.code, line)
		require.Contains(t, got.errOut, "nothing was changed, because the answer was not", line)
	}
}

// enter runs a line and compares its end and its output.
func enter(ctx context.Context, t *testing.T, line string) {
	t.Helper()
	command, expected, _ := strings.Cut(line, " => ")
	expected, fails := strings.CutPrefix(expected, "fails ")
	if strings.HasSuffix(command, " --watch") { // waits until a host has reported its name
		require.Zero(t, interruptAt(t, expected, strings.Fields(command)...).code)
		return
	}
	got := landfallUntil(ctx, strings.Fields(command)...)
	if fails != (got.code != 0) {
		t.Errorf("%s ended with %d: %s", command, got.code, got.errOut)
	}
	printed := got.out + got.errOut
	endSimulated(t, printed)
	if !regexp.MustCompile("(?m)" + expected).MatchString(printed) {
		t.Errorf("%s printed %q instead of %s", command, printed, expected)
	}
}
