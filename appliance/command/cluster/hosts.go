package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
)

// hostSettings are the settings of a host in the file of a cluster. The MAC addresses identify the
// host.
type hostSettings struct {
	MACs []string `json:"macs"`
	// fields of the API
	Name     string          `json:"host_name,omitempty"`
	Role     string          `json:"host_role,omitempty"`
	Disks    []action.Object `json:"disks_selected_config,omitempty"`
	Labels   []action.Object `json:"node_labels,omitempty"`
	Pool     string          `json:"machine_config_pool_name,omitempty"`
	Args     []string        `json:"installer_args,omitempty"`
	Ignition string          `json:"ignition_config_overrides,omitempty"`
}

func (h *hostSettings) check(index int) error {
	if len(h.MACs) == 0 {
		return fmt.Errorf("%s[%d] has no macs; the MAC addresses of a host identify it", hostsField, index)
	}
	for i, text := range h.MACs {
		mac, err := net.ParseMAC(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%s[%d] has the MAC address %q; write one such as 52:54:00:12:34:56", hostsField, index,
				text)
		}
		h.MACs[i] = mac.String()
	}
	if h.Role != "" && !slices.Contains([]string{"auto-assign", "master", "worker", "arbiter", "bootstrap"}, h.Role) {
		return fmt.Errorf("%s[%d] has the host_role %s; expected auto-assign, master, worker, arbiter or bootstrap",
			hostsField, index, h.Role)
	}
	return nil
}

// title names a host in sentences.
func (h *hostSettings) title() string {
	if h.Name != "" {
		return h.Name
	}
	return h.MACs[0]
}

// update returns the request that changes a host, or nil.
func (h *hostSettings) update() action.Object {
	body := action.Object{}
	for field, value := range map[string]string{"host_name": h.Name, "host_role": h.Role,
		"machine_config_pool_name": h.Pool} {
		if value != "" {
			body[field] = value
		}
	}
	for field, value := range map[string][]action.Object{"disks_selected_config": h.Disks, "node_labels": h.Labels} {
		if len(value) > 0 {
			body[field] = value
		}
	}
	return body
}

// macsOf returns the MAC addresses in the inventory of a host.
func macsOf(host *remote.Host) []string {
	var inventory models.Inventory
	if err := json.Unmarshal([]byte(host.Inventory), &inventory); err != nil {
		return nil // not reported yet
	}
	var macs []string
	for _, nic := range inventory.Interfaces {
		if nic.MacAddress != "" {
			macs = append(macs, strings.ToLower(nic.MacAddress))
		}
	}
	return macs
}

// exportHosts returns the settings of a cluster's hosts.
func exportHosts(cmd *cobra.Command, a *action.Action, cluster string) ([]hostSettings, error) {
	hosts, err := a.Hosts(cmd.Context(), "")
	if err != nil {
		return nil, err
	}
	var all []hostSettings
	for i := range hosts {
		host := &hosts[i]
		macs := macsOf(host)
		if host.ClusterID != cluster || len(macs) == 0 {
			continue
		}
		var details models.Host
		if err := json.Unmarshal(host.JSON, &details); err != nil {
			return nil, fmt.Errorf("the host in the response does not match the API: %w", err)
		}
		settings, err := settingsOf(&details, macs)
		if err != nil {
			return nil, fmt.Errorf("read the settings of the host %s: %w", host.Name(), err)
		}
		all = append(all, settings)
	}
	return all, nil
}

func settingsOf(host *models.Host, macs []string) (hostSettings, error) {
	h := hostSettings{MACs: macs, Name: host.RequestedHostname, Role: string(host.Role),
		Pool: host.MachineConfigPoolName, Ignition: host.IgnitionConfigOverrides}
	if host.InstallationDiskID != "" {
		h.Disks = []action.Object{{"id": host.InstallationDiskID, "role": "install"}}
	}
	var labels map[string]string
	for text, into := range map[string]any{host.InstallerArgs: &h.Args, host.NodeLabels: &labels} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return h, err
		}
	}
	for _, key := range sortedKeys(labels) {
		h.Labels = append(h.Labels, action.Object{"key": key, "value": labels[key]})
	}
	return h, nil
}

// apply applies settings to the hosts that have registered, and binds those of no cluster. It names
// the hosts that have not registered yet.
func apply(cmd *cobra.Command, a *action.Action, cluster string, name any, wanted []hostSettings) error {
	registered, err := a.Hosts(cmd.Context(), "")
	if err != nil {
		return err
	}
	var missing []string
	var failures []error
	for i := range wanted {
		settings := &wanted[i]
		host := find(registered, settings.MACs, cluster)
		if host == nil {
			missing = append(missing, settings.title())
			continue
		}
		if err := settings.applyTo(cmd, a, host, cluster); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", settings.title(), err))
			continue
		}
		if !a.DryRun {
			fmt.Fprintf(cmd.OutOrStdout(), "The host %s has the settings of the file.\n", settings.title())
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "Not registered yet: %s. Boot them from the image, then run landfall cluster "+
			"apply-hosts %v -f FILE.\n", strings.Join(missing, ", "), name)
	}
	return errors.Join(failures...)
}

// find returns the host with one of the MAC addresses that belongs to the cluster or to none.
func find(registered []remote.Host, macs []string, cluster string) *remote.Host {
	var free *remote.Host
	for i := range registered {
		host := &registered[i]
		if !slices.ContainsFunc(macsOf(host), func(mac string) bool { return slices.Contains(macs, mac) }) {
			continue
		}
		switch host.ClusterID {
		case cluster:
			return host
		case "":
			free = host
		}
	}
	return free
}

func (h *hostSettings) applyTo(cmd *cobra.Command, a *action.Action, host *remote.Host, cluster string) error {
	path := remote.HostPath(host.InfraEnvID, host.ID)
	requests := []struct {
		needed       bool
		method, path string
		body         action.Object
	}{
		{host.ClusterID != cluster, http.MethodPost, path + "/actions/bind", action.Object{"cluster_id": cluster}},
		{len(h.update()) > 0, http.MethodPatch, path, h.update()},
		{len(h.Args) > 0, http.MethodPatch, path + "/installer-args", action.Object{"args": h.Args}},
		{h.Ignition != "", http.MethodPatch, path + "/ignition", action.Object{"config": h.Ignition}},
	}
	for _, request := range requests {
		if !request.needed {
			continue
		}
		if _, err := a.Send(cmd, request.method, request.path, request.body); err != nil {
			return err
		}
	}
	return nil
}

func newApplyHosts() *cobra.Command {
	a := action.New()
	var file string
	cmd := a.Changing(&cobra.Command{
		Use:   "apply-hosts NAME -f FILE",
		Short: "Give the registered hosts of a cluster the settings of its file",
		Long: "Give the registered hosts of a cluster the settings (hosts) of a file of landfall cluster export: " +
			"names, roles, disks, labels,\ninstaller arguments and ignition. A host is found by its MAC addresses; " +
			"hosts of no cluster are bound.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if file == "" {
				return outcome.Usagef("-f is missing")
			}
			_, extra, err := action.ReadFile[models.ClusterCreateParams](cmd, file, partNames()...)
			if err != nil {
				return err
			}
			described, err := partsOf(extra)
			if err != nil {
				return err
			}
			if len(described.hosts) == 0 {
				return fmt.Errorf("%s describes no hosts", file)
			}
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			return apply(cmd, a, id, arguments[0], described.hosts)
		},
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "file that describes the hosts; - is standard input")
	return cmd
}
