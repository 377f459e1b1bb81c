package host

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"landfall/appliance/arrival"
	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/web/console"
)

func newMissing() *cobra.Command {
	a := action.New()
	return a.Reading(&cobra.Command{
		Use: "missing", Short: "Explain why machines have not registered",
		Long: "Explain why machines have not registered: refused registrations, reads of images and their progress, " +
			"and servers that were\nbooted through their BMCs; with lines to try on such a machine.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := a.Fetch(cmd.Context(), console.BasePath+"/missing-hosts")
			if err != nil {
				return err
			}
			var found struct {
				console.Arrivals
				Findings json.RawMessage `json:"findings"`
			}
			if err := json.Unmarshal(text, &found); err != nil {
				return fmt.Errorf("the response does not match the API: %w", err)
			}
			out := cmd.OutOrStdout()
			if !a.Format.Tabular() {
				return findings().List(out, &a.Format, found.Findings)
			}
			return writeMissing(out, &a.Format, found.Findings, &found.Arrivals)
		},
	})
}

func findings() *output.Kind[arrival.Finding] {
	type column = output.Column[arrival.Finding]
	return &output.Kind[arrival.Finding]{
		Name: "finding", Empty: "No machine has read an image or tried to register.",
		NameOf: func(f *arrival.Finding) string { return f.Subject },
		Columns: []column{
			{Title: "MACHINE", Value: func(f *arrival.Finding) string { return f.Subject }},
			{Title: "INFRA-ENV", Wide: true, Value: func(f *arrival.Finding) string { return f.InfraEnvName }},
			{Title: "SEVERITY", State: true, Wide: true, Value: func(f *arrival.Finding) string {
				return string(f.Severity)
			}},
			{Title: "SINCE", Value: func(f *arrival.Finding) string { return output.Time(f.Since) }},
			{Title: "REASON", Value: func(f *arrival.Finding) string { return f.Sentence }},
			{Title: "ADVICE", Value: func(f *arrival.Finding) string { return f.Advice }},
		},
	}
}

// writeMissing writes findings one below the other, because their sentences are too long for
// columns. With -o wide, they are columns.
func writeMissing(out io.Writer, format *output.Format, list json.RawMessage, shown *console.Arrivals) error {
	var all []arrival.Finding
	if err := json.Unmarshal(list, &all); err != nil {
		return fmt.Errorf("the response does not match the API: %w", err)
	}
	kind := findings()
	switch {
	case format.Wide() || len(all) == 0:
		if err := kind.List(out, format, list); err != nil {
			return err
		}
	default:
		for _, f := range all {
			output.Printf(out, "%s\n  %s\n  %s\n", f.Subject, f.Sentence, f.Advice)
		}
	}
	fmt.Fprintf(out, "\nThe appliance has recorded reads and refusals since %s.\n\nLines to try on a machine that has "+
		"booted an image:\n", output.Time(shown.Since))
	for _, line := range shown.Lines {
		fmt.Fprintf(out, "  # %s\n  %s\n", line.Purpose, line.Command)
	}
	return nil
}
