package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
)

func sortedKeys(values map[string]string) []string { return slices.Sorted(maps.Keys(values)) }

func newImport() *cobra.Command {
	a := action.New()
	var domain, openshiftID, version string
	cmd := a.Changing(&cobra.Command{
		Use: "import NAME --api HOST --openshift-id ID", Short: "Import an installed cluster, to add hosts to it",
		Long: "Import an installed cluster by the host name of its API, to add hosts to it. landfall import acm " +
			"imports a cluster with all\nits objects from a hub or another appliance.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if domain == "" || openshiftID == "" {
				return outcome.Usagef("--api or --openshift-id is missing; oc get clusterversion version -o " +
					"jsonpath='{.spec.clusterID}' shows the ID")
			}
			body := action.Object{"name": arguments[0], "api_vip_dnsname": domain, "openshift_cluster_id": openshiftID}
			if version != "" {
				body["openshift_version"] = version
			}
			answer, err := a.Send(cmd, http.MethodPost, clustersPath+"/import", body)
			if err != nil || a.DryRun {
				return err
			}
			return action.Answer(cmd, a, kind(), answer, fmt.Sprintf("The cluster %s was imported. Create an "+
				"infra-env for its new hosts with landfall infra-env create.", arguments[0]))
		},
	})
	a.Format.AddFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&domain, "api", "", "host name or address of the cluster's API")
	flags.StringVar(&openshiftID, "openshift-id", "", "ID of the cluster in OpenShift")
	flags.StringVar(&version, "version", "", "version of the cluster")
	return cmd
}

func newAddHosts() *cobra.Command {
	a := action.New()
	return a.Changing(&cobra.Command{
		Use: "add-hosts NAME", Short: "Let further hosts join an installed cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			_, err := act(cmd, a, arguments[0], "allow-add-workers", "The cluster %s accepts further hosts. Boot them "+
				"from its image, then install them with landfall host install.\n")
			return err
		},
	})
}

func newInstallConfig() *cobra.Command {
	a := action.New()
	var file string
	cmd := a.Changing(&cobra.Command{
		Use:   "install-config NAME [-f FILE]",
		Short: "Show the install-config of a cluster, or override fields of it",
		Long: "Show the install-config that an installation would use now. -f overrides fields of it (YAML or JSON) " +
			"that the API does not\nhave:\n  echo '{fips: true}' | landfall cluster install-config east -f -",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			if file == "" {
				var text string
				if err := a.Call(cmd.Context(), http.MethodGet, installConfigPath(id), nil, &text); err != nil {
					return err
				}
				_, err = io.WriteString(cmd.OutOrStdout(), text)
				return err
			}
			return override(cmd, a, arguments[0], id, file)
		},
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the fields to override; - is standard input")
	return cmd
}

func installConfigPath(id string) string { return remote.ClusterPath(id) + "/install-config" }

func override(cmd *cobra.Command, a *action.Action, name, id, file string) (err error) {
	text, err := action.Read(cmd.InOrStdin(), file)
	if err != nil {
		return fmt.Errorf("read the file of -f: %w", err)
	}
	fields := action.Object{}
	if err := action.Decode(file, text, &fields); err != nil {
		return err
	}
	if err := sendOverrides(cmd, a, id, fields); err != nil || a.DryRun {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "The install-config of %s has the fields of the file.\n", name)
	return err
}

// sendOverrides sends the fields that override those of a cluster's install-config. The API takes
// them as JSON in a text.
func sendOverrides(cmd *cobra.Command, a *action.Action, id string, fields action.Object) error {
	if a.DryRun {
		_, err := a.Send(cmd, http.MethodPatch, installConfigPath(id), fields)
		return err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode the fields: %w", err)
	}
	return a.Call(cmd.Context(), http.MethodPatch, installConfigPath(id), string(text), nil)
}
