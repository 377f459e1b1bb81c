// Package operator has the commands on the operators that are installed with a cluster.
package operator

import (
	"encoding/json"
	"fmt"
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
		Use:   "operator",
		Short: "Show the operators that can be installed with a cluster, and those of a cluster",
		Long:  "Show operators. landfall cluster create --operators and landfall cluster set --operators select them.",
	}
	cmd.AddCommand(newList(), newBundles(), newImageSet())
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
			}, "clusters", "events")
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
	}, "settings")
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

func newBundles() *cobra.Command {
	a := action.New()
	type column = output.Column[models.Bundle]
	bundles := &output.Kind[models.Bundle]{
		Name: "bundle", Empty: "No bundles.", NameOf: func(b *models.Bundle) string { return b.ID },
		Columns: []column{
			{Title: "NAME", Value: func(b *models.Bundle) string { return b.ID }},
			{Title: "TITLE", Value: func(b *models.Bundle) string { return b.Title }},
			{Title: "OPERATORS", Value: func(b *models.Bundle) string { return strings.Join(b.Operators, ",") }},
			{Title: "DESCRIPTION", Wide: true, Value: func(b *models.Bundle) string { return b.Description }},
		},
	}
	return a.Reading(&cobra.Command{
		Use: "bundles", Short: "List bundles: operators that are selected together", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.Fetch(cmd.Context(), remote.APIPath+"/operators/bundles")
			if err != nil {
				return err
			}
			return bundles.List(cmd.OutOrStdout(), &a.Format, list)
		},
	})
}
