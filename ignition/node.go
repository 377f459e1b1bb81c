package ignition

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_0/types"
	"github.com/vincent-petithory/dataurl"
)

// File is a file, owned by root, that a config writes on a host. It replaces an existing file.
type File struct {
	Path string
	// Mode contains the permissions, such as 0o644.
	Mode int
	Data []byte
}

// HostEdits contains the differences between the config of a host and the config of its role.
type HostEdits struct {
	// Hostname is written to /etc/hostname.
	Hostname string
	// NodeIPHint is an address in the kubelet's network; "" lets the kubelet choose. For a
	// single-node cluster, it is the network address of the first machine network.
	NodeIPHint string
	Files      []File
	// MachineConfigPool is the pool whose config a worker downloads instead of the config of the
	// pool worker.
	MachineConfigPool string
	// Overrides is an Ignition config that is merged into the result, or "".
	Overrides string
}

// HostConfig returns the config that the installer writes for a host: the config of its role
// (master.ign, worker.ign, arbiter.ign) with the edits. The result has the version of the role's
// config, or the version of the overrides if that is higher.
func HostConfig(role []byte, edits HostEdits) ([]byte, error) {
	if edits.Hostname == "" || strings.ContainsAny(edits.Hostname, " \t\r\n/") {
		return nil, fmt.Errorf("the host name %q cannot be written to /etc/hostname", edits.Hostname)
	}
	files := []File{{Path: "/etc/hostname", Mode: 0o644, Data: []byte(edits.Hostname)}}
	if edits.NodeIPHint != "" {
		files = append(files, File{Path: "/etc/default/nodeip-configuration", Mode: 0o644,
			Data: []byte("KUBELET_NODEIP_HINT=" + edits.NodeIPHint)})
	}
	config, err := addFiles(role, append(files, edits.Files...))
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", edits.Hostname, err)
	}
	if strings.TrimSpace(edits.Overrides) != "" {
		if config, err = Merge(config, []byte(edits.Overrides)); err != nil {
			return nil, fmt.Errorf("host %s: %w", edits.Hostname, err)
		}
	}
	if edits.MachineConfigPool != "" {
		if config, err = usePool(config, edits.MachineConfigPool); err != nil {
			return nil, fmt.Errorf("host %s: %w", edits.Hostname, err)
		}
	}
	return config, nil
}

// RoleEdits contains the additions to the config of a role.
type RoleEdits struct {
	// ServiceCA (PEM) is the CA with which the installer and the controller verify the service, or
	// empty.
	ServiceCA []byte
	// IPv6 makes the host keep the DHCPv6 identity that it had during discovery.
	IPv6 bool
	// Files are additional files for the nodes.
	Files []File
}

// EditRole edits master.ign, worker.ign or arbiter.ign of openshift-install. It does not change the
// version of the config.
func EditRole(role []byte, edits RoleEdits) ([]byte, error) {
	var files []File
	if len(edits.ServiceCA) > 0 {
		files = append(files, File{Path: ServiceCAPath, Mode: 0o644, Data: edits.ServiceCA})
	}
	if edits.IPv6 {
		files = append(files, File{Path: "/etc/NetworkManager/conf.d/01-ipv6.conf", Mode: 0o644,
			Data: []byte(ipv6Conf)})
	}
	return addFiles(role, append(files, edits.Files...))
}

// BootstrapEdits describes the installation of a bootstrap config.
type BootstrapEdits struct {
	// SingleNode reports that the control plane has one host, which bootstraps in place.
	SingleNode bool
	// Hosts are the hosts of the platform baremetal. If the list is empty, the BareMetalHost
	// objects of the installer are unchanged.
	Hosts []BareMetalHost
}

//go:embed live/99-kni.conf
var unmanagedResolvConf string

// EditBootstrap edits bootstrap.ign of openshift-install. The config keeps its version.
// EditBootstrap makes these changes:
//
//   - It removes the static network, because the host already has one.
//   - It converts an /etc/motd that has only appended contents to a plain file, because the machine
//     config operator misreads appended contents.
//   - It adds the discovered hardware to BareMetalHost objects.
//   - It marks a bootstrap host that becomes a control plane node itself.
func EditBootstrap(bootstrap []byte, edits BootstrapEdits) ([]byte, error) {
	hosts := newBareMetalHosts(edits.Hosts)
	config, err := editFiles(bootstrap, func(path string, file map[string]any) (keep bool, err error) {
		switch {
		case path == "/etc/NetworkManager/system-connections/nmconnection":
			return false, nil
		case path == "/etc/motd":
			appendToContents(file)
		case len(edits.Hosts) > 0 && isBareMetalHost(path):
			return true, hosts.edit(path, file)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if edits.SingleNode {
		return config, Validate(config)
	}
	return addFiles(config, []File{
		{Path: "/opt/openshift/assisted-install-bootstrap", Mode: 0o644},
		{Path: "/etc/NetworkManager/conf.d/99-kni.conf", Mode: 0o644, Data: []byte(unmanagedResolvConf)},
	})
}

// addFiles merges files into a config. It does not raise the version of the config.
func addFiles(config []byte, files []File) ([]byte, error) {
	version, err := Version(config)
	if err != nil {
		return nil, err
	}
	// These fields are the same in all versions since 3.0.
	over := types.Config{Ignition: types.Ignition{Version: version}}
	for _, f := range files {
		over.Storage.Files = append(over.Storage.Files, types.File{
			Node: types.Node{Path: f.Path, Overwrite: util.BoolToPtr(true),
				User: types.NodeUser{Name: util.StrToPtr("root")}},
			FileEmbedded1: types.FileEmbedded1{Mode: util.IntToPtr(f.Mode),
				Contents: types.FileContents{Source: util.StrToPtr(dataurl.EncodeBytes(f.Data))}},
		})
	}
	raw, err := json.Marshal(over)
	if err != nil {
		return nil, fmt.Errorf("encode files for an Ignition config: %w", err)
	}
	return Merge(config, raw)
}

// editFiles calls edit for each file. edit may change the file, or remove it by returning false.
func editFiles(raw []byte, edit func(path string, file map[string]any) (keep bool, err error)) ([]byte, error) {
	if err := Validate(raw); err != nil {
		return nil, err
	}
	config, err := decodeTree(raw)
	if err != nil {
		return nil, err
	}
	storage, ok := config["storage"].(map[string]any)
	if !ok {
		return raw, nil
	}
	files, _ := storage["files"].([]any)
	kept := make([]any, 0, len(files))
	for _, f := range files {
		file, ok := f.(map[string]any)
		if !ok {
			continue
		}
		path, _ := file["path"].(string)
		keep, err := edit(path, file)
		if err != nil {
			return nil, err
		}
		if keep {
			kept = append(kept, file)
		}
	}
	storage["files"] = kept
	out, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the Ignition config: %w", err)
	}
	return out, nil
}

func appendToContents(file map[string]any) {
	parts, _ := file["append"].([]any)
	contents, _ := file["contents"].(map[string]any)
	if len(parts) == 1 && contents["source"] == nil {
		file["contents"] = parts[0]
		delete(file, "append")
	}
}

// usePool replaces the pool in the pointer config of a worker.
func usePool(raw []byte, pool string) ([]byte, error) {
	config, err := decodeTree(raw)
	if err != nil {
		return nil, err
	}
	head, _ := config["ignition"].(map[string]any)
	refs, _ := head["config"].(map[string]any)
	merges, _ := refs["merge"].([]any)
	found := false
	for _, m := range merges {
		ref, _ := m.(map[string]any)
		source, _ := ref["source"].(string)
		if to := strings.Replace(source, "config/worker", "config/"+pool, 1); to != source {
			ref["source"], found = to, true
		}
	}
	if !found {
		return nil, &ConfigError{Config: "config", Where: "$.ignition.config.merge",
			Problem: fmt.Sprintf("contains no worker config that the pool %q can replace", pool)}
	}
	out, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the Ignition config: %w", err)
	}
	return out, Validate(out)
}
