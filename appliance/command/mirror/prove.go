package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/mirror/courier"
	"landfall/appliance/mirror/site"
	"landfall/web/console"
)

// askAgain is the time between two requests for the progress of a check.
const askAgain = 300 * time.Millisecond

// proving holds the options of landfall mirror prove.
type proving struct {
	appliance    *action.Action
	wanted       site.ProofRequest
	secret       string
	list, format string
	errOut       io.Writer
}

func newProve() *cobra.Command {
	o := &proving{appliance: action.New()}
	cmd := &cobra.Command{
		Use:   "prove (--release VERSION|PULLSPEC | --cluster ID)",
		Short: "Check the mirror for all images of an installation",
		Long: "Check that the mirror contains all images of a release, with all layers, at the locations from which " +
			"nodes pull them.\nThe running appliance performs the check. The exit code is 1 if an installation would " +
			"fail because of missing images.\n--list writes a signed list of the missing images for landfall " +
			"courier fill.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.errOut = cmd.ErrOrStderr()
			if (o.wanted.Release == "") == (o.wanted.ClusterID == "") {
				return outcome.Usagef("give either --release or --cluster")
			}
			if err := o.appliance.Resolve(cmd.Context(), &o.wanted.ClusterID); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.appliance.Formerly(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.wanted.Release, "release", "", "version of a release of the site, or pull spec of a release")
	flags.StringVar(&o.wanted.Architecture, "arch", "", "architecture of the hosts; default: the release's")
	flags.StringVar(&o.wanted.ClusterID, "cluster", "",
		"ID or name of the cluster whose release and pull secret are used")
	flags.StringVar(&o.secret, "pull-secret", "",
		"with --release: file with the pull secret for the mirror; default: the appliance's own")
	flags.BoolVar(&o.wanted.Bytes, "bytes", false,
		"read every layer and compare its digest; an interrupted run continues")
	flags.BoolVar(&o.wanted.Fresh, "fresh", false, "ignore recent results")
	flags.StringVar(&o.list, "list", "", "file for the list of missing images; an earlier list is removed if none is "+
		"missing")
	flags.StringVar(&o.format, "format", "text", "format of the list: text, imageset (for oc-mirror), csv")
	return cmd
}

func (o *proving) run(ctx context.Context, out io.Writer) error {
	if o.secret != "" {
		secret, err := os.ReadFile(o.secret)
		if err != nil {
			return fmt.Errorf("read the pull secret: %w", err)
		}
		o.wanted.PullSecret = string(secret)
	}
	proof := new(site.Proof)
	if err := o.appliance.Call(ctx, http.MethodPost, console.MirrorProofsRoute, o.wanted, proof); err != nil {
		return err
	}
	if err := Follow(ctx, &o.appliance.Client, proof, o.errOut); err != nil {
		return err
	}
	if proof.State == site.ProofFailed {
		return errors.New(proof.Message)
	}
	if !o.appliance.Format.Tabular() {
		if err := o.appliance.Format.Document(out, "proof", proof.ID, proof, nil); err != nil {
			return err
		}
	} else if err := Write(out, proof); err != nil {
		return err
	}
	if proof.Complete {
		return o.removeList()
	}
	if o.list != "" {
		if err := o.writeList(ctx, proof.ID); err != nil {
			return err
		}
	}
	return &outcome.CodeError{Code: outcome.Failure}
}

// Follow shows the progress of a check on errOut until it ends.
func Follow(ctx context.Context, appliance *remote.Client, proof *site.Proof, errOut io.Writer) error {
	bar := output.NewMeter(errOut, "checking the mirror", 0)
	defer bar.End()
	for proof.State == site.ProofRunning {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain):
		}
		if err := appliance.Call(ctx, http.MethodGet, console.MirrorProofsRoute+"/"+proof.ID, nil, proof); err != nil {
			return err
		}
		if proof.BytesTotal > 0 {
			bar.Set(proof.BytesRead, proof.BytesTotal)
		} else {
			bar.Set(int64(proof.Images), int64(proof.Total))
		}
	}
	return nil
}

func (o *proving) writeList(ctx context.Context, id string) error {
	var list []byte
	if err := o.appliance.Call(ctx, http.MethodGet, console.MirrorProofsRoute+"/"+id+"/list?format="+
		url.QueryEscape(o.format), nil, &list); err != nil {
		return err
	}
	if err := os.WriteFile(o.list, list, 0o644); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	fmt.Fprintf(o.errOut, "landfall: the missing images are listed in %s; fetch them with landfall courier fill\n",
		o.list)
	return nil
}

// removeList removes a list of an earlier check, because a courier would fetch its images again.
func (o *proving) removeList() error {
	if o.list == "" {
		return nil
	}
	earlier, err := os.ReadFile(o.list)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !courier.Is(earlier) {
		return nil
	}
	if err == nil {
		err = os.Remove(o.list)
	}
	if err != nil {
		return fmt.Errorf("nothing is missing, but the earlier list could not be removed: %w; remove it", err)
	}
	fmt.Fprintf(o.errOut, "landfall: nothing is missing; the earlier list %s was removed\n", o.list)
	return nil
}

// Write writes the result of a check for people.
func Write(out io.Writer, proof *site.Proof) error {
	report := proof.Report
	if report == nil {
		return nil
	}
	var errs []error
	line := func(format string, arguments ...any) {
		_, err := fmt.Fprintf(out, format+"\n", arguments...)
		errs = append(errs, err)
	}
	line("%s %s", proof.Release, report.Version)
	for _, fault := range report.Faults {
		images := "images"
		if fault.Images == 1 {
			images = "image"
		}
		line("FAULT %s (%d %s)", fault.Text, fault.Images, images)
	}
	for i := range report.Results {
		if result := &report.Results[i]; result.Gap() && result.Text != "" {
			line("GAP %s: %s", result.Status, result.Text)
		}
	}
	for _, warning := range report.Warnings {
		line("note %s", warning)
	}
	if proof.Awaited > 0 {
		line("%d of %d images on the last list have arrived", proof.Arrived, proof.Awaited)
	}
	line("%s %.1f GB, %d requests, %s", proof.Message, float64(report.Bytes)/1e9, report.Requests,
		report.Took.Round(time.Millisecond))
	return errors.Join(errs...)
}

func newAcceptGaps() *cobra.Command {
	appliance := action.New()
	var cluster string
	var revoke bool
	cmd := &cobra.Command{
		Use:   "accept-gaps --cluster ID",
		Short: "Allow the installation of a cluster although images are missing in the mirror",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("give --cluster")
			}
			if err := appliance.Resolve(cmd.Context(), &cluster); err != nil {
				return err
			}
			return appliance.Call(cmd.Context(), http.MethodPut, console.BasePath+"/clusters/"+url.PathEscape(cluster)+
				"/mirror-gaps", map[string]bool{"accept": !revoke}, nil)
		},
	}
	appliance.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID or name of the cluster")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "revoke the acceptance")
	return cmd
}
