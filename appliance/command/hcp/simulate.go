package hcp

import (
	"fmt"
	"os"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/simulate/hypershift"
	"landfall/appliance/simulate/workagent"
)

// NewSimulate returns the command that simulates a management cluster.
func NewSimulate() *cobra.Command {
	var hosts int64
	cmd := &cobra.Command{
		Use:   "management-cluster FILE",
		Short: "Simulate a management cluster with the manifests of its agent",
		Long: "Simulate a management cluster: connect to the broker with the manifests of an agent (landfall hcp " +
			"consumers agent NAME -o FILE),\napply bundles to objects in memory, and report about them. The agent " +
			"and HyperShift's operator are simulated, and no control plane runs.\nUse it to try hosted clusters out; " +
			"end it to see what happens while a management cluster is away. Its objects are lost then.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			manifests, err := os.ReadFile(arguments[0])
			if err != nil {
				return fmt.Errorf("read the agent's manifests: %w", err)
			}
			options, err := AgentOptions(manifests)
			if err != nil {
				return err
			}
			operator, err := hypershift.New(hosts)
			if err != nil {
				return err
			}
			consumer := options.TLS.Certificates[0].Leaf.Subject.CommonName
			fmt.Fprintf(cmd.OutOrStdout(), "The simulated management cluster %s connects to %s. Press Ctrl+C to end "+
				"it.\n", consumer, options.Address)
			last := ""
			options.Ended = func(reason error) {
				if reason.Error() != last {
					last = reason.Error()
					fmt.Fprintf(cmd.ErrOrStderr(), "%s; connecting again\n", last)
				}
			}
			agent := workagent.NewAgent(consumer, workagent.NewCluster(operator), clockwork.NewRealClock(), 0)
			return agent.Run(cmd.Context(), options)
		},
	}
	cmd.Flags().Int64Var(&hosts, "hosts", demoHosts, "number of free hosts of the node pools")
	return cmd
}
