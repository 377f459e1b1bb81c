package iso

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/isofile"
)

func newDiff() *cobra.Command {
	format := new(output.Format)
	cmd := &cobra.Command{
		Use:   "diff A|- B|-",
		Short: "Show the differences between two ISOs: volume, kernel arguments, config, files",
		Long: "Show the differences between two ISOs: volume, kernel arguments, fields of the Ignition config, " +
			"embedded files,\nand the ISO's own files. " +
			"The output contains only the size and digest of contents. The exit code\nis 1 if the ISOs differ.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if arguments[0] == "-" && arguments[1] == "-" {
				return outcome.Usagef("only one of the ISOs can be standard input")
			}
			a, closeA, err := openISO(cmd, arguments[0])
			if err != nil {
				return err
			}
			defer closeA()
			b, closeB, err := openISO(cmd, arguments[1])
			if err != nil {
				return err
			}
			defer closeB()
			var bar *output.Meter
			differences, err := isofile.Compare(cmd.Context(), a, b, func(total int64) io.Writer {
				bar = output.NewMeter(cmd.ErrOrStderr(), "comparing", total)
				return bar
			})
			if bar != nil {
				bar.End()
			}
			if err != nil {
				return err
			}
			if !format.Tabular() {
				err = format.Document(cmd.OutOrStdout(), "differences", arguments[0], differences, nil)
			} else {
				err = writeDifferences(cmd.OutOrStdout(), differences)
			}
			if err == nil && len(differences) > 0 {
				return &outcome.CodeError{Code: outcome.Failure}
			}
			return err
		},
	}
	format.AddFlag(cmd)
	format.AddFormerFlag(cmd)
	return cmd
}

func writeDifferences(out io.Writer, differences []isofile.Difference) error {
	last := ""
	for _, d := range differences {
		if d.In != last {
			last = d.In
			fmt.Fprintf(out, "%s\n", d.In)
		}
		var err error
		switch {
		case d.A == "":
			_, err = fmt.Fprintf(out, "  + %s: %s\n", d.What, d.B)
		case d.B == "":
			_, err = fmt.Fprintf(out, "  - %s: %s\n", d.What, d.A)
		default:
			_, err = fmt.Fprintf(out, "  ~ %s: %s -> %s\n", d.What, d.A, d.B)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
