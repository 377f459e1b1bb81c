package manifests

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/kube/acm"
	"landfall/appliance/kube/apply"
)

// NewExportACM returns the command.
func NewExportACM() *cobra.Command {
	m := &manifests{appliance: action.New()}
	var options acm.Options
	var output string
	cmd := &cobra.Command{
		Use:   "acm CLUSTER",
		Short: "Write the manifests with which a hub (ACM, MCE) imports an installed cluster",
		Long: "Write the manifests with which a hub imports a cluster of this appliance: ManagedCluster, " +
			"KlusterletAddonConfig,\nauto-import-secret, the resources of the cluster and its hosts, kubeconfig and " +
			"password, with a kustomization.yaml.\nOn the hub, run oc apply -k DIR. CLUSTER is the name of the " +
			"ClusterDeployment, or the name or ID of the cluster. Only\nthe owner can read files with secrets.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := m.connect(); err != nil {
				return err
			}
			directory, err := acm.Export(cmd.Context(), m.server, arguments[0], options)
			if err != nil {
				return m.connectionError(err)
			}
			if output == "" {
				output = directory.Name
			}
			if err := directory.Write(output, time.Now()); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s: %d files\n", output, len(directory.Files))
			for _, file := range directory.Files {
				if file.Secret {
					fmt.Fprintf(out, "SECRET %s\n", file.Name)
				}
			}
			if len(directory.LeftOut) > 0 {
				fmt.Fprintf(out, "not exported; create on the hub: Secrets %s\n", strings.Join(directory.LeftOut, ", "))
			}
			return nil
		},
	}
	m.addServerFlags(cmd)
	cmd.Flags().BoolVar(&options.PullSecret, "pull-secret", false, "include the pull secret")
	cmd.Flags().BoolVar(&options.BMCCredentials, "bmc-credentials", false,
		"include the credentials of the servers' BMCs")
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"directory to write, new or empty, or FILE.tar; default: the cluster's name with -acm")
	return cmd
}

// NewImportACM returns the command.
func NewImportACM() *cobra.Command {
	m := &manifests{appliance: action.New()}
	cmd := &cobra.Command{
		Use:   "acm DIR|FILE.tar|FILE.yaml",
		Short: "Import an installed cluster from a hub or from another appliance",
		Long: "Import an installed cluster: the output of landfall export acm, or the objects of a hub (oc get -o " +
			"yaml of its\nClusterDeployment, AgentClusterInstall, InfraEnvs, BareMetalHosts and Secrets). This " +
			"appliance can then add\nhosts to the cluster. Fields that only a server sets are dropped; objects of " +
			"unused " +
			"kinds are skipped and listed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			m.out, m.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := m.connect(); err != nil {
				return err
			}
			read, err := acm.Read(arguments[0])
			if err != nil {
				return m.printErrors(err)
			}
			chosen, notes, err := acm.Adoption(read.Objects)
			if err != nil {
				return err
			}
			for _, note := range append(read.Notes, notes...) {
				fmt.Fprintf(m.errOut, "note %s\n", note)
			}
			var rejected int
			if err := apply.Apply(cmd.Context(), m.server, chosen, m.options, m.print(&rejected)); err != nil {
				return m.connectionError(err)
			}
			if rejected > 0 {
				return &outcome.CodeError{Code: outcome.Failure}
			}
			return nil
		},
	}
	m.addServerFlags(cmd)
	cmd.Flags().BoolVar(&m.options.DryRun, "dry-run", false, "change nothing; show the changes")
	cmd.Flags().BoolVar(&m.options.Force, "force-conflicts", false, "take over fields of other field managers")
	return cmd
}
