package state

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/doctor"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// errNotReady is the error of a site with failed checks, which the report contains.
var errNotReady = errors.New("the site is not ready: see the failed checks above")

// NewDoctor returns the command that checks a site.
func NewDoctor() *cobra.Command {
	var all, dhcp bool
	var cluster string
	appliance := action.New()
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the site: DNS names, clocks, registries, addresses, proxies, and the reports of hosts",
		Long: "Check the prerequisites of an installation from the appliance's machine: DNS records, time servers, " +
			"the certificates, clocks\nand images of registries, unused virtual IP addresses, the MTU of network " +
			"paths, proxies, and the reports of the cluster's\nhosts. The exit code is 1 if a check failed. " +
			"In JSON and YAML, passed is green, a warning is amber, and\nfailed is red.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := appliance.Resolve(cmd.Context(), &cluster); err != nil {
				return err
			}
			query := url.Values{}
			if cluster != "" {
				query.Set("cluster_id", cluster)
			}
			if dhcp {
				query.Set("dhcp", "true")
			}
			path := console.DoctorRoute + "?" + query.Encode()
			var report doctor.Report
			if err := appliance.Call(cmd.Context(), http.MethodGet, path, nil, &report); err != nil {
				return err
			}
			write := func() error { return writeReport(cmd.OutOrStdout(), &report, all) }
			if !appliance.Format.Tabular() {
				write = func() error {
					return appliance.Format.Document(cmd.OutOrStdout(), "doctor", "site", &report, nil)
				}
			}
			if err := write(); err != nil {
				return err
			}
			if report.Status == doctor.Red {
				return errNotReady
			}
			return nil
		},
	}
	appliance.Formerly(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID or name of the cluster to install")
	cmd.Flags().BoolVar(&dhcp, "dhcp", false, "check the DHCP servers in the appliance's networks")
	cmd.Flags().BoolVar(&all, "all", false, "also write the checks that passed")
	return cmd
}

// writeReport prints findings one below the other, because their sentences are too long for
// columns.
func writeReport(out io.Writer, report *doctor.Report, all bool) error {
	counts := make(map[doctor.Status]int)
	area := ""
	for _, finding := range report.Findings {
		counts[finding.Status]++
		if finding.Status == doctor.Green && !all {
			continue
		}
		if finding.Area != area {
			area = finding.Area
			output.Printf(out, "%s\n", area)
		}
		output.Printf(out, "  %-8s%s\n          check   %s\n          result  %s\n", finding.Status.Word(),
			finding.Subject, finding.Check, finding.Result)
		if finding.Advice != "" {
			output.Printf(out, "          advice  %s\n", finding.Advice)
		}
	}
	_, err := fmt.Fprintf(out, "%d failed, %s, %d unknown, %d passed\n", counts[doctor.Red],
		sentence.Count(counts[doctor.Amber], "warning"), counts[doctor.Unknown], counts[doctor.Green])
	return err
}
