// Package network has the commands on the static networks of hosts.
package network

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "network",
		Short: "Show, check and set the static networks of an infra-env's hosts",
		Long: "Show, check and set the static networks of an infra-env's hosts. A file (YAML or JSON) has one " +
			"entry for " +
			"each host, with the\nfields of the API:\n\n" +
			"  - mac_interface_map: [{mac_address: \"52:54:00:00:00:01\", logical_nic_name: eno1}]\n" +
			"    network_yaml: |\n" +
			"      interfaces:\n" +
			"      - name: eno1\n" +
			"        type: ethernet\n" +
			"        state: up\n" +
			"        ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}",
	}
	cmd.AddCommand(newShow(), newCheck(), newSet())
	return cmd
}

// networks are those of one infra-env.
type networks struct {
	*action.Action
	infraEnv, file string
}

func newNetworks() *networks { return &networks{Action: action.New()} }

func (n *networks) addFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&n.infraEnv, "infra-env", "", "infra-env of the hosts")
	return cmd
}

func (n *networks) addFile(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&n.file, "file", "f", "", "file with the networks")
	return n.addFlags(cmd)
}

// id returns the ID of the infra-env.
func (n *networks) id(cmd *cobra.Command) (string, error) {
	if n.infraEnv == "" {
		return "", outcome.Usagef("--infra-env is missing; landfall infra-env list lists all infra-envs")
	}
	return n.InfraEnvID(cmd.Context(), n.infraEnv)
}

// read returns the networks in the file.
func (n *networks) read() (action.Object, error) {
	if n.file == "" {
		return nil, outcome.Usagef("-f is missing")
	}
	text, err := os.ReadFile(n.file)
	if err != nil {
		return nil, fmt.Errorf("read the networks: %w", err)
	}
	var hosts []*models.HostStaticNetworkConfig
	if err := action.Decode(n.file, text, &hosts); err != nil {
		return nil, err
	}
	return action.Object{"static_network_config": hosts}, nil
}

func newShow() *cobra.Command {
	n := newNetworks()
	return n.addFlags(n.Reading(&cobra.Command{
		Use: "show --infra-env NAME", Short: "Write the static networks of an infra-env", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := n.id(cmd)
			if err != nil {
				return err
			}
			var env models.InfraEnv
			if err := n.Call(cmd.Context(), http.MethodGet, remote.InfraEnvPath(id), nil, &env); err != nil {
				return err
			}
			networks := json.RawMessage(env.StaticNetworkConfig)
			if len(networks) == 0 {
				networks = json.RawMessage("[]")
			}
			if n.Format.Tabular() {
				return output.YAML(cmd.OutOrStdout(), networks)
			}
			return n.Format.Value(cmd.OutOrStdout(), networks)
		},
	}))
}

func newCheck() *cobra.Command {
	n := newNetworks()
	return n.addFile(n.Reading(&cobra.Command{
		Use: "check -f FILE --infra-env NAME", Short: "Check static networks, and show the addresses of the hosts",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := n.read()
			if err != nil {
				return err
			}
			id, err := n.id(cmd)
			if err != nil {
				return err
			}
			path := console.BasePath + "/infra-envs/" + url.PathEscape(id) + "/static-network/preview"
			text, err := n.Action.Send(cmd, http.MethodPost, path, body)
			if err != nil {
				return err
			}
			if !n.Format.Tabular() {
				return n.Format.Value(cmd.OutOrStdout(), text)
			}
			return describe(cmd, text)
		},
	}))
}

// describe writes the addresses of each host, and returns an error if a network has a fault.
func describe(cmd *cobra.Command, text json.RawMessage) error {
	var preview console.NetworkPreview
	if err := json.Unmarshal(text, &preview); err != nil {
		return fmt.Errorf("the response does not match the API: %w", err)
	}
	faults := 0
	for i, host := range preview.Hosts {
		if host.Fault != nil {
			faults++
			fmt.Fprintf(cmd.OutOrStdout(), "host %d: %s\n", i, host.Fault.Message)
			continue
		}
		var addresses []string
		for _, address := range host.Addresses {
			addresses = append(addresses, address.Interface+" "+address.Address)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "host %d: %s\n", i, strings.Join(addresses, ", "))
		for _, warning := range host.Warnings {
			fmt.Fprintf(cmd.OutOrStdout(), "host %d: warning: %s\n", i, warning)
		}
	}
	if faults > 0 {
		return &outcome.CodeError{Code: outcome.Failure}
	}
	return nil
}

func newSet() *cobra.Command {
	n := newNetworks()
	return n.addFile(n.Changing(&cobra.Command{
		Use: "set -f FILE --infra-env NAME", Short: "Replace the static networks of an infra-env",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := n.read()
			if err != nil {
				return err
			}
			id, err := n.id(cmd)
			if err != nil {
				return err
			}
			if _, err := n.Action.Send(cmd, http.MethodPatch, remote.InfraEnvPath(id), body); err != nil || n.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The networks of %s were changed. Hosts must boot the new image.\n",
				n.infraEnv)
			return err
		},
	}))
}
