// Package operator has the commands on the operators that are installed with a cluster.
package operator

import (
	"encoding/json"
	"fmt"

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
		Use:   "operator",
		Short: "Show the operators that can be installed with a cluster, and those of a cluster",
		Long:  "Show operators. landfall cluster create --operators and landfall cluster set --operators select them.",
	}
	cmd.AddCommand(newList(), newImageSet())
	return cmd
}

func kind() *output.Kind[models.MonitoredOperator] {
	type column = output.Column[models.MonitoredOperator]
	return &output.Kind[models.MonitoredOperator]{
		Name: "operator", Empty: "No operators.",
		NameOf: func(o *models.MonitoredOperator) string { return o.Name },
		Columns: []column{
			{Title: "NAME", Value: func(o *models.MonitoredOperator) string { return o.Name }},
			{Title: "TYPE", Value: func(o *models.MonitoredOperator) string { return string(o.OperatorType) }},
			{Title: "VERSION", Value: func(o *models.MonitoredOperator) string { return o.Version }},
			{Title: "STATUS", State: true, Value: func(o *models.MonitoredOperator) string { return string(o.Status) }},
			{Title: "INFO", Value: func(o *models.MonitoredOperator) string { return o.StatusInfo }},
		},
	}
}

func newList() *cobra.Command {
	a := action.New()
	var cluster string
	cmd := a.Listing(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the operators that can be chosen, or those of a cluster",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return listSupported(cmd, a)
			}
			id, err := a.ClusterID(cmd.Context(), cluster)
			if err != nil {
				return err
			}
			return action.List(cmd, a, kind(), func() (json.RawMessage, error) {
				return a.Fetch(cmd.Context(), remote.ClusterPath(id)+"/monitored-operators")
			})
		},
	})
	cmd.Flags().StringVar(&cluster, "cluster", "", "the operators of a cluster and their state")
	return cmd
}

func listSupported(cmd *cobra.Command, a *action.Action) error {
	names := &output.Kind[string]{
		Name: "operator", Empty: "No operators.", NameOf: func(name *string) string { return *name },
		Columns: []output.Column[string]{{Title: "NAME", Value: func(name *string) string { return *name }}},
	}
	return action.List(cmd, a, names, func() (json.RawMessage, error) {
		return a.Fetch(cmd.Context(), remote.APIPath+"/supported-operators")
	})
}

func newImageSet() *cobra.Command {
	a := action.New()
	var cluster string
	cmd := &cobra.Command{
		Use: "image-set --cluster NAME", Short: "Write the oc-mirror configuration for a cluster's operators",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			id, err := a.ClusterID(cmd.Context(), cluster)
			if err != nil {
				return err
			}
			text, err := a.Fetch(cmd.Context(), console.BasePath+"/clusters/"+id+"/operators/imageset-config.yaml")
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), string(text))
			return err
		},
	}
	a.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster", "", "cluster with the operators")
	return cmd
}
