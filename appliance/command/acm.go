package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/kube/acm"
	"landfall/appliance/kube/apply"
)

func newExportACM() *cobra.Command {
	m := &manifests{}
	var options acm.Options
	var output string
	cmd := &cobra.Command{
		Use:   "acm CLUSTER",
		Short: "Write the manifests with which a hub (ACM, MCE) adopts an installed cluster",
		Long: "Write the manifests with which a hub adopts a cluster that was installed here: ManagedCluster, " +
			"KlusterletAddonConfig, auto-import-secret,\n" +
			"the cluster's and its hosts' resources, kubeconfig and password, with a kustomization.yaml. On the hub: " +
			"oc apply -k DIR.\n" +
			"CLUSTER is the name of the ClusterDeployment or of the cluster, or its id. Files that hold secrets are " +
			"readable only by their owner.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			folder, err := acm.Export(cmd.Context(), m.server(), arguments[0], options)
			if err != nil {
				return m.reachable(err)
			}
			if output == "" {
				output = folder.Name
			}
			if err := folder.Write(output, time.Now()); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s: %d files\n", output, len(folder.Files))
			for _, file := range folder.Files {
				if file.Secret {
					fmt.Fprintf(out, "SECRET %s\n", file.Name)
				}
			}
			if len(folder.LeftOut) > 0 {
				fmt.Fprintf(out, "not exported, create on the hub: Secrets %s\n", strings.Join(folder.LeftOut, ", "))
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

func newImportACM() *cobra.Command {
	m := &manifests{}
	cmd := &cobra.Command{
		Use:   "acm DIR|FILE.tar|FILE.yaml",
		Short: "Take over an installed cluster from a hub or from another appliance",
		Long: "Take over an installed cluster: the output of landfall export acm, or the objects of a hub (oc get -o " +
			"yaml of its ClusterDeployment,\n" +
			"AgentClusterInstall, InfraEnvs, BareMetalHosts and Secrets). Hosts can then join it from here. Fields " +
			"that " +
			"only a server\n" +
			"sets are dropped; kinds that are not used are skipped and listed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			m.out, m.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
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
			var refused int
			if err := apply.Apply(cmd.Context(), m.server(), chosen, m.options, m.print(&refused)); err != nil {
				return m.reachable(err)
			}
			if refused > 0 {
				return &outcomeError{code: exitFailure}
			}
			return nil
		},
	}
	m.addServerFlags(cmd)
	cmd.Flags().BoolVar(&m.options.DryRun, "dry-run", false, "change nothing, and show what would happen")
	cmd.Flags().BoolVar(&m.options.Force, "force-conflicts", false, "take over fields of other field managers")
	return cmd
}
