package engine

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	written "github.com/coreos/ignition/v2/config/v3_2/types"
	ignitionconfig "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/installconfig"
	"landfall/appliance/release"
	"landfall/ignition"
)

// withNetworks adds networks to a cluster: of both address families, or of IPv6 only.
func withNetworks(params models.ClusterCreateParams, both, managed bool) models.ClusterCreateParams {
	params.ClusterNetworks = []*models.ClusterNetwork{{Cidr: "fd01::/48", HostPrefix: 64}}
	params.ServiceNetworks = []*models.ServiceNetwork{{Cidr: "fd02::/112"}}
	params.MachineNetworks = []*models.MachineNetwork{{Cidr: "fd00:10::/64"}}
	if managed {
		params.APIVips, params.IngressVips = []*models.APIVip{{IP: "fd00:10::4"}},
			[]*models.IngressVip{{IP: "fd00:10::5"}}
	}
	if !both {
		return params
	}
	params.ClusterNetworks = append([]*models.ClusterNetwork{{Cidr: "10.128.0.0/14", HostPrefix: 23}},
		params.ClusterNetworks...)
	params.ServiceNetworks = append([]*models.ServiceNetwork{{Cidr: "172.30.0.0/16"}}, params.ServiceNetworks...)
	params.MachineNetworks = append([]*models.MachineNetwork{{Cidr: "192.168.10.0/24"}}, params.MachineNetworks...)
	if managed {
		params.APIVips = append([]*models.APIVip{{IP: "192.168.10.4"}}, params.APIVips...)
		params.IngressVips = append([]*models.IngressVip{{IP: "192.168.10.5"}}, params.IngressVips...)
	}
	return params
}

// stacks returns topologies with address families other than IPv4 only.
func stacks() []topology {
	count := conv.Pointer[int64]
	return []topology{
		{name: "dual-stack", version: "4.20.8", hosts: 3, asked: withNetworks(models.ClusterCreateParams{}, true, true),
			shows: "IPv4 and IPv6: every list of networks and the VIPs have one entry of each family, IPv4 first."},
		{name: "dual-stack-arbiter", version: "4.20.8", hosts: 3,
			asked: withNetworks(models.ClusterCreateParams{ControlPlaneCount: count(2)}, true, true),
			shows: "Two control-plane nodes and an arbiter with IPv4 and IPv6."},
		{name: "dual-stack-none", version: "4.20.8", hosts: 3,
			asked: withNetworks(models.ClusterCreateParams{UserManagedNetworking: conv.Pointer(true)}, true, false),
			shows: "Three nodes behind the user's load balancer with IPv4 and IPv6."},
		{name: "dual-stack-single-node", version: "4.20.8", hosts: 1,
			asked: withNetworks(models.ClusterCreateParams{ControlPlaneCount: count(1)}, true, false),
			shows: "One node with IPv4 and IPv6."},
		{name: "dual-stack-vsphere", version: "4.20.8", hosts: 3, maker: "VMware, Inc.",
			asked: withNetworks(models.ClusterCreateParams{Platform: platformOf(models.PlatformTypeVsphere)}, true,
				true),
			shows: "Three virtual machines on vSphere with IPv4 and IPv6."},
		{name: "ipv6", version: "4.20.8", hosts: 3, ipv6: true, asked: withNetworks(models.ClusterCreateParams{},
			false, true),
			shows: "IPv6 only on bare metal: hostPrefix is 64, and the hosts take stable addresses."},
		{name: "ipv6-none", version: "4.20.8", hosts: 3, ipv6: true,
			asked: withNetworks(models.ClusterCreateParams{UserManagedNetworking: conv.Pointer(true)}, false, false),
			shows: "IPv6 only behind the user's load balancer."},
		{name: "ipv6-single-node", version: "4.20.8", hosts: 1, ipv6: true,
			asked: withNetworks(models.ClusterCreateParams{ControlPlaneCount: count(1)}, false, false),
			shows: "One node with IPv6 only."},
	}
}

// onlyIPv6 removes the IPv4 addresses of a host.
func onlyIPv6(found *models.Inventory) {
	nic := found.Interfaces[0]
	nic.IPV6Addresses = []string{strings.Replace(strings.Replace(nic.IPV4Addresses[0], "192.168.10.", "fd00:10::", 1),
		"/24", "/64", 1)}
	nic.IPV4Addresses = nil
	found.Routes = []*models.Route{{Destination: "::", Gateway: "fd00:10::1", Interface: nic.Name, Family: 10}}
}

var updateGolden = flag.Bool("update", false, "write the golden files of testdata")

// requireGolden compares a text with a file of testdata, or writes the file with -update.
func requireGolden(t *testing.T, directory, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", directory, name)
	if *updateGolden {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// requireGeneratedFiles compares the manifests of the appliance with testdata/manifests, and the
// edited ignition configs with testdata/ignition.
func (b *harness) requireGeneratedFiles(t *testing.T, kind topology, cluster string) {
	in, err := b.installation(cluster)
	require.NoError(t, err)
	manifests, err := in.SystemManifests()
	require.NoError(t, err)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		fmt.Fprintf(&text, "# %s\n%s\n", name, strings.TrimSpace(string(manifests[name])))
	}
	requireGolden(t, "manifests", kind.name+".txt", text.String())

	files, err := in.Files(generatedBy(t, in))
	require.NoError(t, err)
	text.Reset()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".ign") {
			continue
		}
		require.NoError(t, ignition.Validate(files[name]), name)
		config, report, err := ignitionconfig.ParseCompatibleVersion(files[name])
		require.NoError(t, err, name)
		require.Empty(t, report.Entries, name)
		var own struct {
			Ignition struct{ Version string }
		}
		require.NoError(t, json.Unmarshal(files[name], &own))
		config.Ignition.Version = own.Ignition.Version
		describeIgnition(t, &text, name, config)
	}
	requireGolden(t, "ignition", kind.name+".txt", text.String())
}

// generatedBy returns the files of openshift-install that the appliance edits: the pointer configs
// of the roles, and a bootstrap config with a BareMetalHost for each host, a NetworkManager
// connection and an appended /etc/motd.
func generatedBy(t *testing.T, in *installconfig.Installation) *release.Generated {
	t.Helper()
	url := func(text string) *string { return conv.Pointer(dataurl.EncodeBytes([]byte(text))) }
	var bootstrap written.Config
	bootstrap.Ignition.Version = "3.2.0"
	file := func(path, text string) written.File {
		return written.File{Node: written.Node{Path: path},
			FileEmbedded1: written.FileEmbedded1{Contents: written.Resource{Source: url(text)},
				Mode: conv.Pointer(0o644)}}
	}
	bootstrap.Storage.Files = []written.File{
		{Node: written.Node{Path: "/etc/motd"},
			FileEmbedded1: written.FileEmbedded1{Append: []written.Resource{{Source: url("This is the bootstrap.\n")}},
				Mode: conv.Pointer(0o644)}},
		file("/etc/NetworkManager/system-connections/nmconnection", "[connection]\n"),
	}
	if *in.Cluster.Platform.Type == models.PlatformTypeBaremetal {
		for i, host := range in.Hosts {
			name := fmt.Sprintf("/opt/openshift/openshift/99_openshift-cluster-api_hosts-%d.yaml", i)
			bootstrap.Storage.Files = append(bootstrap.Storage.Files, file(name, fmt.Sprintf(
				"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata:\n  name: %s\n  namespace: "+
					"openshift-machine-api\nspec:\n  online: true\nstatus: {}\n", host.Hostname())))
		}
	}
	text, err := json.Marshal(bootstrap)
	require.NoError(t, err)
	generated := &release.Generated{Files: map[string][]byte{release.BootstrapIgnition: text}}
	for _, role := range []string{"master", "worker", "arbiter"} {
		generated.Files[role+".ign"] = fmt.Appendf(nil,
			`{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"https://api-int.bench.site.test:22623/config/%s"}]}}}`, role)
		if in.Cluster.ControlPlaneCount == 1 {
			generated.Files[role+".ign"] = []byte(`{"ignition":{"version":"3.2.0"}}`)
		}
	}
	return generated
}

var identifier = regexp.MustCompile(`0{8}-0000-4000-8000-0{11}`)

// describeIgnition writes a config in a readable form.
func describeIgnition(t *testing.T, out *strings.Builder, name string, config types.Config) {
	t.Helper()
	fmt.Fprintf(out, "# %s (ignition %s)\n", identifier.ReplaceAllString(name, "HOST"), config.Ignition.Version)
	for _, merged := range config.Ignition.Config.Merge {
		fmt.Fprintf(out, "merge %s\n", *merged.Source)
	}
	for _, file := range config.Storage.Files {
		mode := 0
		if file.Mode != nil {
			mode = *file.Mode
		}
		fmt.Fprintf(out, "file %s %#o overwrite=%t\n", file.Path, mode, conv.Value(file.Overwrite))
		for _, part := range append([]types.Resource{file.Contents}, file.Append...) {
			if part.Source == nil {
				continue
			}
			content, err := dataurl.DecodeString(*part.Source)
			require.NoError(t, err)
			for line := range bytes.Lines(content.Data) {
				fmt.Fprintf(out, "    %s\n", bytes.TrimRight(line, "\n"))
			}
		}
	}
	for _, unit := range config.Systemd.Units {
		fmt.Fprintf(out, "unit %s\n", unit.Name)
	}
}

// TestGeneratedPage_eachLineIsExplained checks that docs/generated.md has a row for each field of
// the golden install-configs, each manifest and each edited file, and no row beyond these.
func TestGeneratedPage_eachLineIsExplained(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "generated.md"))
	require.NoError(t, err)
	used := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(page), -1) {
		used[row[1]] = false
	}
	explained := func(name, file string) {
		found := false
		for pattern := range used {
			matched, err := path.Match(pattern, name)
			require.NoError(t, err, pattern)
			if matched || strings.HasPrefix(name, pattern+".") {
				used[pattern], found = true, true
			}
		}
		require.True(t, found, "%s of %s is not explained", name, file)
	}
	for _, kind := range topologies() {
		text, err := os.ReadFile(filepath.Join("testdata", "installconfig", kind.name+".yaml"))
		require.NoError(t, err)
		var config any
		require.NoError(t, yaml.Unmarshal(text, &config))
		for _, at := range leaves("", config) {
			explained(at, kind.name)
		}
		for _, folder := range []string{"manifests", "ignition"} {
			text, err := os.ReadFile(filepath.Join("testdata", folder, kind.name+".txt"))
			require.NoError(t, err)
			for _, line := range regexp.MustCompile(`(?m)^(?:# ((?:openshift|manifests)/\S+)|file (\S+)|(merge) )`).
				FindAllStringSubmatch(string(text), -1) {
				explained(line[1]+line[2]+line[3], kind.name)
			}
		}
	}
	for pattern, use := range used {
		require.True(t, use, "docs/generated.md explains %s, which is in no golden file", pattern)
	}
}

// leaves returns the paths of all scalar values of an install-config, without list indexes.
func leaves(at string, value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			found = append(found, leaves(strings.TrimPrefix(at+"."+name, "."), inner)...)
		}
		if len(value) > 0 {
			return found
		}
	case []any:
		for _, inner := range value {
			found = append(found, leaves(at, inner)...)
		}
		return found
	}
	return []string{at}
}
