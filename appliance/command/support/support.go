// Package support has the command that writes a support archive.
package support

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/supportarchive"
	"landfall/web/console"
)

// command holds the options of landfall support.
type command struct {
	appliance     remote.Client
	file, dataDir string
	version       string
}

// New returns landfall support of a program with the given version.
func New(version string) *cobra.Command {
	o := &command{version: version}
	cmd := &cobra.Command{
		Use:   "support",
		Short: "Write one archive without secrets that describes the appliance",
		Long: "Write one archive for a person who cannot reach the appliance: versions, configuration, log, metrics, " +
			"the state of\nthe site, the use of the disk, the stacks of the program, and the journals of clusters " +
			"that need a person.\nThe archive contains no secrets; README.txt in it describes its members.\n\n" +
			"The command asks the running appliance. If the appliance does not start, --data-dir describes its " +
			"data directory.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dataDir != "" && cmd.Flags().Changed("url") {
				return outcome.Usagef("give either --data-dir (a stopped appliance) or --url")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.file, "output", "o", "",
		"file to write; - is standard output; default: a name with the time")
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "", "data directory of an appliance that does not start")
	return cmd
}

func (o *command) run(ctx context.Context, out, errOut io.Writer) error {
	at := time.Now()
	if o.file == "-" {
		return o.write(ctx, out, errOut, at)
	}
	name := o.file
	if name == "" {
		name = supportarchive.Name(at)
	}
	if err := output.WriteFile(name, func(file io.Writer) error { return o.write(ctx, file, errOut, at) }); err != nil {
		return err
	}
	_, err := fmt.Fprintf(errOut, "written: %s\n", name)
	return err
}

func (o *command) write(ctx context.Context, out, errOut io.Writer, at time.Time) error {
	if o.dataDir != "" {
		return o.describe(ctx, out, at)
	}
	response, err := o.appliance.Do(ctx, http.MethodGet, console.SupportRoute, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return err
		}
		return o.appliance.Refusal(http.MethodGet, console.SupportRoute, response, answer)
	}
	body, end := output.Metered(errOut, "support archive", response.Body, response.ContentLength)
	defer end()
	if _, err = io.Copy(out, body); err != nil {
		return fmt.Errorf("the appliance aborted the archive (%w); see its log", err)
	}
	return nil
}

// describe writes what can be known without the appliance. Names and sizes are not secret.
func (o *command) describe(ctx context.Context, out io.Writer, at time.Time) error {
	if _, err := os.Stat(o.dataDir); err != nil {
		return fmt.Errorf("look for the data directory: %w; check --data-dir", err)
	}
	return supportarchive.Write(ctx, out, at, []supportarchive.Member{supportarchive.Version(o.version),
		supportarchive.Files(o.dataDir), supportarchive.Process()}, func(text string) string { return text })
}
