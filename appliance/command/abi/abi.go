// Package abi has the commands on directories of the agent-based installer.
package abi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/abi"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// NewImport returns the command that imports a directory of the agent-based installer.
func NewImport() *cobra.Command {
	appliance := action.New()
	var check bool
	cmd := &cobra.Command{
		Use:   "abi DIR",
		Short: "Import a cluster from an agent-based installer directory",
		Long: "Create a cluster and its infra-env on a running appliance from an agent-based installer directory.\n" +
			"The directory contains cluster-manifests, mirror, openshift, agent-config.yaml and install-config.yaml, " +
			"or only the\ninstall-config.yaml. Hosts receive their names, roles, disks and networks when they boot " +
			"the " +
			"cluster's image; their\nMAC addresses identify them. Unsupported settings are rejected with file and " +
			"line; settings without effect are\nlisted. The documents are stored, and landfall export abi writes " +
			"them unchanged.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			made, err := importDirectory(cmd.Context(), &appliance.Client, arguments[0], check)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !appliance.Format.Tabular() {
				return appliance.Format.Document(out, "cluster", made.Name, made, nil)
			}
			for _, note := range made.Notes {
				fmt.Fprintf(out, "note %s\n", note)
			}
			if check {
				_, err = fmt.Fprintf(out, "%s: can be imported; OpenShift %s, %s described\n", made.Name,
					made.OpenshiftVersion, sentence.Count(made.Hosts, "host"))
				return err
			}
			_, err = fmt.Fprintf(out, "%s: cluster %s, infra-env %s; OpenShift %s, %s described\n", made.Name,
				made.ClusterID, made.InfraEnvID, made.OpenshiftVersion, sentence.Count(made.Hosts, "host"))
			return err
		},
	}
	appliance.Formerly(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "show the result without importing")
	return cmd
}

func importDirectory(ctx context.Context, c *remote.Client, dir string, check bool) (*abi.Import, error) {
	files, leftOut, err := abi.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sent := make([]remote.File, len(files))
	for i, file := range files {
		sent[i] = remote.File(file)
	}
	made := new(abi.Import)
	if err := c.SendFiles(ctx, fmt.Sprintf("%s?check=%t", console.ABIRoute, check), sent, made); err != nil {
		return nil, err
	}
	for _, name := range leftOut {
		made.Notes = append(made.Notes, abi.Problem{File: name,
			Text: "is omitted; the agent-based installer does not read it"})
	}
	return made, nil
}

// NewExport returns the command that writes a directory for the agent-based installer.
func NewExport() *cobra.Command {
	appliance := action.New()
	var cluster, output string
	cmd := &cobra.Command{
		Use:   "abi --cluster ID",
		Short: "Write a cluster as an agent-based installer directory",
		Long: "Write a cluster of a running appliance as an agent-based installer directory. If the cluster was " +
			"imported from such a directory,\nits documents are written unchanged, except for changed values. The " +
			"directory contains the pull secret.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			if err := appliance.Resolve(cmd.Context(), &cluster); err != nil {
				return err
			}
			directory := new(abi.Export)
			if err := appliance.Call(cmd.Context(), http.MethodGet, console.BasePath+"/clusters/"+
				url.PathEscape(cluster)+"/abi?format=json", nil, directory); err != nil {
				return err
			}
			if output == "" {
				output = directory.Name
			}
			if err := writeDirectory(output, directory.Files); err != nil {
				return err
			}
			return sayExported(cmd.OutOrStdout(), output, directory)
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID or name of the cluster")
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"directory to write, new or empty; default: the cluster's name with -abi")
	return cmd
}

func sayExported(out io.Writer, output string, directory *abi.Export) error {
	_, err := fmt.Fprintf(out, "%s: %s\n", output, sentence.Count(len(directory.Files), "file"))
	if len(directory.Changed) > 0 {
		_, changedErr := fmt.Fprintf(out, "changed since the import: %s\n", strings.Join(directory.Changed, ", "))
		err = errors.Join(err, changedErr)
	}
	if len(directory.Unwritten) > 0 {
		_, writeErr := fmt.Fprintf(out, "values without a place in its documents: %s\n",
			strings.Join(directory.Unwritten, ", "))
		err = errors.Join(err, writeErr)
	}
	return err
}

// writeDirectory writes files into a new or empty directory. Only their owner can read them,
// because they include the pull secret.
func writeDirectory(dir string, files []abi.File) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("the directory %s is not empty; choose another one with -o", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the directory %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	for _, file := range files {
		err = errors.Join(err, root.MkdirAll(filepath.Dir(filepath.FromSlash(file.Name)), 0o700),
			root.WriteFile(filepath.FromSlash(file.Name), file.Data, 0o600))
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("write the directory %s: %w", dir, err)
	}
	return nil
}
