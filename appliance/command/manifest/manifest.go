// Package manifest has the commands on the additional manifests of a cluster.
package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Add manifests to the installation of a cluster",
		Long: "Add, show and remove manifests that the installation of a cluster applies. Manifests of whole " +
			"sites are " +
			"the subject of\nlandfall apply.",
	}
	cmd.AddCommand(newList(), newShow(), newAdd(), newReplace(), newRemove())
	return cmd
}

func kind() *output.Kind[models.Manifest] {
	type column = output.Column[models.Manifest]
	return &output.Kind[models.Manifest]{
		Name: "manifest", Empty: "No manifests. Add one with landfall manifest add.",
		NameOf: func(m *models.Manifest) string { return m.FileName },
		Columns: []column{
			{Title: "NAME", Value: func(m *models.Manifest) string { return m.FileName }},
			{Title: "FOLDER", Value: func(m *models.Manifest) string { return m.Folder }},
			{Title: "SOURCE", Value: func(m *models.Manifest) string { return m.ManifestSource }},
		},
	}
}

// ofCluster are the manifests of one cluster.
type ofCluster struct {
	*action.Action
	cluster, folder string
}

func newOfCluster() *ofCluster { return &ofCluster{Action: action.New()} }

func (o *ofCluster) addFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "cluster of the manifests")
	return cmd
}

func (o *ofCluster) addFolder(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&o.folder, "folder", "manifests", "folder of the manifest: manifests, or openshift")
	output.Choices(cmd, "folder", "manifests", "openshift")
	return o.addFlags(cmd)
}

// path returns the path of the manifests.
func (o *ofCluster) path(cmd *cobra.Command) (string, error) {
	if o.cluster == "" {
		return "", outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
	}
	id, err := o.ClusterID(cmd.Context(), o.cluster)
	return remote.ClusterPath(id) + "/manifests", err
}

func (o *ofCluster) query(name string) string {
	return "?" + url.Values{"folder": {o.folder}, "file_name": {name}}.Encode()
}

func newList() *cobra.Command {
	o := newOfCluster()
	var all bool
	cmd := o.addFlags(o.Listing(&cobra.Command{
		Use: "list --cluster NAME", Aliases: []string{"ls"}, Short: "List the manifests of a cluster",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := o.path(cmd)
			if err != nil {
				return err
			}
			return action.List(cmd, o.Action, kind(), func() (json.RawMessage, error) {
				return o.Fetch(cmd.Context(), fmt.Sprintf("%s?include_system_generated=%t", path, all))
			}, "clusters", "events")
		},
	}))
	cmd.Flags().BoolVar(&all, "all", false, "also those that the appliance generates")
	return cmd
}

func newShow() *cobra.Command {
	o := newOfCluster()
	cmd := &cobra.Command{
		Use: "show FILE --cluster NAME", Short: "Write a manifest to standard output", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			path, err := o.path(cmd)
			if err != nil {
				return err
			}
			text, err := o.Fetch(cmd.Context(), path+"/files"+o.query(arguments[0]))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	o.AddFlags(cmd.Flags())
	return o.addFolder(cmd)
}

func newAdd() *cobra.Command {
	o := newOfCluster()
	var name string
	cmd := o.addFolder(o.Changing(&cobra.Command{
		Use: "add FILE --cluster NAME", Short: "Add a manifest to a cluster; - is standard input",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return o.write(cmd, http.MethodPost, arguments[0], name, "content", "The manifest %s was added to the "+
				"cluster %s.\n")
		},
	}))
	cmd.Flags().StringVar(&name, "name", "", "name of the manifest; default: that of the file")
	return cmd
}

func newReplace() *cobra.Command {
	o := newOfCluster()
	var name string
	cmd := o.addFolder(o.Changing(&cobra.Command{
		Use: "replace FILE --cluster NAME", Short: "Replace the content of a manifest; - is standard input",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return o.write(cmd, http.MethodPatch, arguments[0], name, "updated_content", "The manifest %s of the "+
				"cluster %s was replaced.\n")
		},
	}))
	cmd.Flags().StringVar(&name, "name", "", "name of the manifest; default: that of the file")
	return cmd
}

// write sends the content of a file in a field and prints a sentence with the names of the manifest
// and of the cluster.
func (o *ofCluster) write(cmd *cobra.Command, method, file, name, field, sentence string) error {
	text, err := action.Read(cmd.InOrStdin(), file)
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	if name == "" {
		name = filepath.Base(file)
	}
	if name == "-" {
		return outcome.Usagef("the manifest has no name; give --name")
	}
	path, err := o.path(cmd)
	if err != nil {
		return err
	}
	body := action.Object{"file_name": name, "folder": o.folder, field: base64.StdEncoding.EncodeToString(text)}
	if _, err := o.Send(cmd, method, path, body); err != nil || o.DryRun {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), sentence, name, o.cluster)
	return err
}

func newRemove() *cobra.Command {
	o := newOfCluster()
	return o.addFolder(o.Removing(&cobra.Command{
		Use: "remove FILE --cluster NAME", Aliases: []string{"rm", "delete"}, Short: "Remove a manifest of a cluster",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			path, err := o.path(cmd)
			if err != nil {
				return err
			}
			effect := "The manifest " + arguments[0] + " is removed from the cluster " + o.cluster + "."
			if err := o.Confirm(cmd, arguments[0], effect); err != nil {
				return err
			}
			if _, err := o.Send(cmd, http.MethodDelete, path+o.query(arguments[0]), nil); err != nil || o.DryRun {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The manifest %s was removed.\n", arguments[0])
			return err
		},
	}))
}
