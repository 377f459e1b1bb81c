// Package manifests has the commands that apply, import and export Kubernetes manifests.
package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/mirror"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/doctor"
	"landfall/appliance/kube/apply"
	"landfall/appliance/mirror/site"
	"landfall/web/console"
)

// manifests holds the options of landfall apply and landfall delete.
type manifests struct {
	appliance *action.Action
	token     string // of --token
	server    *apply.Server
	sources   apply.Sources
	options   apply.Options
	timeout   time.Duration
	out       io.Writer
	errOut    io.Writer
}

func (m *manifests) addFlags(cmd *cobra.Command) {
	m.addServerFlags(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&m.sources.Paths, "filename", "f", nil,
		"file, directory or kustomization; - is standard input; may be repeated")
	flags.BoolVarP(&m.sources.Recursive, "recursive", "R", false, "read subdirectories as well")
	flags.StringVarP(&m.options.Namespace, "namespace", "n", "", "namespace of objects without one; default: default")
}

func (m *manifests) addServerFlags(cmd *cobra.Command) {
	m.appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&m.token, "token", "", "bearer token; default: LANDFALL_TOKEN, or that of landfall login")
}

// connect finds the appliance.
func (m *manifests) connect() error {
	url, err := m.appliance.URL()
	if err != nil {
		return err
	}
	client, err := m.appliance.HTTP()
	m.server = &apply.Server{URL: url, Token: m.token, HTTP: client}
	return err
}

// read reads the manifests and prints each error on a line.
func (m *manifests) read(cmd *cobra.Command) ([]*apply.Object, error) {
	m.out, m.errOut, m.sources.Stdin = cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin()
	if len(m.sources.Paths) == 0 {
		return nil, outcome.Usagef("-f is missing")
	}
	if err := m.connect(); err != nil {
		return nil, err
	}
	read, err := apply.Read(m.sources)
	if err != nil {
		return nil, m.printErrors(err)
	}
	for _, note := range read.Notes {
		fmt.Fprintf(m.errOut, "note %s\n", note)
	}
	return read.Objects, nil
}

// printErrors prints the errors of manifests, one on each line. Other errors end the command.
func (m *manifests) printErrors(err error) error {
	problems, ok := errors.AsType[apply.Problems](err)
	if !ok {
		return err
	}
	m.complain(problems)
	return &outcome.CodeError{Code: outcome.Failure}
}

func (m *manifests) complain(problems apply.Problems) {
	for _, problem := range problems {
		output.Printf(m.errOut, "landfall: %s\n", problem)
	}
}

// connectionError converts an error of the connection to the format of the other commands.
func (m *manifests) connectionError(err error) error {
	if cause, ok := errors.AsType[*url.Error](err); ok {
		return m.appliance.Unreachable(cause)
	}
	return err
}

// print prints results in kubectl's format. It counts rejections, and in a dry run also Landfall's
// warnings.
func (m *manifests) print(rejected *int) func(apply.Result) {
	dry := ""
	if m.options.DryRun {
		dry = " (server dry run)"
	}
	return func(o apply.Result) {
		for _, warning := range o.Warnings {
			output.Printf(m.errOut, "landfall: %s: %s: %s\n", o.Object.Source, o.Object, warning.Text)
			if m.options.DryRun && warning.Own {
				*rejected++
			}
		}
		if o.Err == nil {
			fmt.Fprintf(m.out, "%s %s%s\n", o.Object, o.Text, dry)
			return
		}
		*rejected++
		output.Printf(m.errOut, "landfall: %s: %s was rejected: %s\n", o.Object.Source, o.Object, o.Err)
	}
}

// NewApply returns the command.
func NewApply() *cobra.Command {
	m := &manifests{appliance: action.New()}
	var wait, printed bool
	cmd := &cobra.Command{
		Use:   "apply -f DIR|FILE|-",
		Short: "Apply Kubernetes manifests of a site to a running appliance",
		Long: "Apply Kubernetes manifests to the Kubernetes API of a running appliance: files with one or more YAML " +
			"or JSON documents,\ndirectories, directories with a kustomization.yaml, and ClusterInstances of the " +
			"siteconfig operator. Referenced objects are\napplied before the objects that reference them. Fields " +
			"that an earlier apply set and the manifests now omit are removed.\nIf an object is rejected, " +
			"the others are still applied, and the exit code is 1.\n--dry-run changes nothing. It checks " +
			"the objects and lists what is missing for an installation: referenced objects,\nimages " +
			"in the mirror, and DNS records.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := m.read(cmd)
			if err != nil {
				return err
			}
			if printed {
				return apply.Print(m.out, list)
			}
			return m.connectionError(m.apply(cmd.Context(), list, wait))
		},
	}
	m.addFlags(cmd)
	cmd.Flags().BoolVar(&m.options.DryRun, "dry-run", false,
		"change nothing; show the changes and what is missing")
	cmd.Flags().BoolVar(&m.options.Force, "force-conflicts", false, "take over fields of other field managers")
	cmd.Flags().BoolVar(&printed, "print", false,
		"print the objects in the order of the apply instead of applying them, for kubectl apply -f -")
	cmd.Flags().BoolVar(&wait, "wait", false,
		"wait until the clusters are installed; without clusters, until the images of the infra-envs are available")
	cmd.Flags().DurationVar(&m.timeout, "timeout", 0, "time limit of --wait; default: none")
	return cmd
}

func (m *manifests) apply(ctx context.Context, list []*apply.Object, wait bool) error {
	var rejected int
	if err := apply.Apply(ctx, m.server, list, m.options, m.print(&rejected)); err != nil {
		return err
	}
	if m.options.DryRun {
		missing, err := m.missing(ctx, list)
		if err != nil {
			return err
		}
		if rejected += missing; rejected == 0 {
			fmt.Fprintf(m.out, "all prerequisites that can be checked before servers boot are met\n")
		}
	}
	if rejected > 0 {
		return &outcome.CodeError{Code: outcome.Failure}
	}
	if !wait || m.options.DryRun {
		return nil
	}
	return m.within(ctx, func(ctx context.Context) error {
		return apply.Follow(ctx, m.server, clockwork.NewRealClock(), list, m.options, func(s apply.State) {
			output.Printf(m.out, "%3d%% %s\n", s.Percent, s.Text)
		})
	})
}

// within waits within the time limit of --wait. Its error then has the exit code for what has not
// happened yet.
func (m *manifests) within(ctx context.Context, wait func(context.Context) error) error {
	if m.timeout == 0 {
		return wait(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	err := wait(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &outcome.CodeError{Code: outcome.Waiting, Cause: err}
	}
	return err
}

// missing prints and counts the missing prerequisites of an installation.
func (m *manifests) missing(ctx context.Context, list []*apply.Object) (int, error) {
	problems, err := apply.Missing(ctx, m.server, list, m.options)
	if err != nil {
		return 0, err
	}
	m.complain(problems)
	missing := len(problems)
	clusters, err := apply.PlannedClusters(ctx, m.server, list, m.options)
	if err != nil {
		return 0, err
	}
	var proven []apply.PlannedCluster
	for _, cluster := range clusters {
		images, err := m.images(ctx, cluster, &proven)
		if err != nil {
			return 0, err
		}
		names, err := m.names(ctx, cluster)
		if err != nil {
			return 0, err
		}
		missing += images + names
	}
	return missing, nil
}

// images has the appliance check all images of the cluster's release in the mirror.
func (m *manifests) images(ctx context.Context, cluster apply.PlannedCluster,
	proven *[]apply.PlannedCluster) (int, error) {
	if cluster.Release == "" || slices.ContainsFunc(*proven, func(p apply.PlannedCluster) bool {
		return p.Release == cluster.Release && p.PullSecret == cluster.PullSecret
	}) {
		return 0, nil
	}
	if cluster.MirrorsOfItsOwn {
		fmt.Fprintf(m.out, "%s: the images of %s are not checked, because the cluster has its own mirror rules\n",
			cluster.Name,
			cluster.Release)
		return 0, nil
	}
	*proven = append(*proven, cluster)
	proof := new(site.Proof)
	request := site.ProofRequest{Release: cluster.Release, PullSecret: cluster.PullSecret}
	if err := m.appliance.Call(ctx, http.MethodPost, console.MirrorProofsRoute, request, proof); err != nil {
		return 0, fmt.Errorf("check the images of %s: %w", cluster.Release, err)
	}
	if err := mirror.Follow(ctx, &m.appliance.Client, proof, m.errOut); err != nil {
		return 0, err
	}
	if proof.State == site.ProofFailed {
		output.Printf(m.errOut, "landfall: %s: images: %s\n", cluster.Source, proof.Message)
		return 1, nil
	}
	if err := mirror.Write(m.out, proof); err != nil || proof.Complete {
		return 0, err
	}
	return proof.Gaps, nil
}

// names has the appliance look up the cluster's names in the site's DNS.
func (m *manifests) names(ctx context.Context, cluster apply.PlannedCluster) (int, error) {
	if cluster.Name == "" || cluster.BaseDomain == "" {
		return 0, nil // the API has rejected the object
	}
	query := url.Values{"name": {cluster.Name}, "base_domain": {cluster.BaseDomain}, "api_vip": cluster.APIVIPs,
		"ingress_vip": cluster.IngressVIPs}
	if cluster.UserManaged {
		query.Set("names_needed", "true")
	}
	var report doctor.Report
	if err := m.appliance.Call(ctx, http.MethodGet, console.DoctorRoute+"?"+query.Encode(), nil, &report); err != nil {
		return 0, fmt.Errorf("check the DNS names of %s: %w", cluster.Name, err)
	}
	missing := 0
	for _, finding := range report.Findings {
		word := "note"
		switch finding.Status {
		case doctor.Green:
			continue
		case doctor.Red:
			word = "MISSING"
			missing++
		}
		output.Printf(m.out, "%s %s: %s. %s\n", word, finding.Subject, finding.Result, finding.Advice)
	}
	return missing, nil
}

// NewDelete returns the command.
func NewDelete() *cobra.Command {
	m := &manifests{appliance: action.New()}
	var wait bool
	cmd := &cobra.Command{
		Use:   "delete -f DIR|FILE|-",
		Short: "Remove the objects of manifests from a running appliance",
		Long: "Remove the objects in manifests in the reverse order of landfall apply, and wait until they are " +
			"gone.\nInstalled clusters keep running; only the appliance's data about them is removed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := m.read(cmd)
			if err != nil {
				return err
			}
			if err := m.confirm(cmd, list); err != nil {
				return err
			}
			return m.connectionError(m.delete(cmd.Context(), list, wait))
		},
	}
	m.addFlags(cmd)
	m.appliance.AddYesFlag(cmd)
	cmd.Flags().BoolVar(&m.options.DryRun, "dry-run", false, "remove nothing; show the objects to remove")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until the objects are gone")
	cmd.Flags().DurationVar(&m.timeout, "timeout", time.Minute, "time limit of --wait")
	return cmd
}

// confirm asks before the deletion removes clusters. The manifests need not name a cluster: it goes
// with its namespace.
func (m *manifests) confirm(cmd *cobra.Command, list []*apply.Object) error {
	if m.options.DryRun || m.appliance.Yes {
		return nil
	}
	clusters, err := apply.ClustersToRemove(cmd.Context(), m.server, list, m.options)
	if err != nil || len(clusters) == 0 {
		return m.connectionError(err)
	}
	var names []string
	for _, cluster := range clusters {
		names = append(names, cluster.String())
	}
	effect := "The appliance removes what it has of these clusters, with their kubeconfigs, passwords and logs: " +
		strings.Join(names, ", ") + ". Installed clusters keep running."
	return m.appliance.Confirm(cmd, strings.Join(names, " "), effect)
}

func (m *manifests) delete(ctx context.Context, list []*apply.Object, wait bool) error {
	var rejected int
	if err := apply.Delete(ctx, m.server, list, m.options, m.print(&rejected)); err != nil {
		return err
	}
	if rejected > 0 {
		return &outcome.CodeError{Code: outcome.Failure}
	}
	if !wait || m.options.DryRun {
		return nil
	}
	return m.within(ctx, func(ctx context.Context) error {
		return apply.AwaitGone(ctx, m.server, clockwork.NewRealClock(), list, m.options)
	})
}
