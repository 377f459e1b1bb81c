package iso

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/osimage"
	"landfall/web/console"
)

const osImagesPath = console.BasePath + "/os-images"

// imagePollInterval is the interval between two requests for an image's progress.
const imagePollInterval = 300 * time.Millisecond

// library is the library of live ISOs of an appliance.
type library struct{ *action.Action }

func (l *library) osImages(ctx context.Context) ([]osimage.Image, error) {
	var list struct {
		OSImages []osimage.Image `json:"os_images"`
	}
	return list.OSImages, l.Call(ctx, http.MethodGet, osImagesPath, nil, &list)
}

// osImage finds an image by its ID, a prefix of the ID, or its name.
func (l *library) osImage(ctx context.Context, wanted string) (*osimage.Image, error) {
	images, err := l.osImages(ctx)
	if err != nil {
		return nil, err
	}
	var found []osimage.Image
	for _, image := range images {
		if image.ID == wanted {
			return &image, nil
		}
		if strings.HasPrefix(image.ID, wanted) || image.Name == wanted {
			found = append(found, image)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("the OS image %s does not exist; landfall iso list lists all images", wanted)
	case 1:
		return &found[0], nil
	}
	return nil, fmt.Errorf("%d OS images match %s; give a longer prefix of the ID from landfall iso list", len(found),
		wanted)
}

func newList() *cobra.Command {
	l := &library{action.New()}
	return l.Formerly(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the live ISOs of a running appliance", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := l.osImages(cmd.Context())
			if err != nil {
				return err
			}
			return kind().Objects(cmd.OutOrStdout(), &l.Format, images)
		},
	})
}

func kind() *output.Kind[osimage.Image] {
	type column = output.Column[osimage.Image]
	return &output.Kind[osimage.Image]{
		Name: "iso", Empty: "No live ISOs. Import one with landfall iso import.",
		NameOf: func(i *osimage.Image) string { return i.ID },
		Columns: []column{
			{Title: "ID", Value: func(i *osimage.Image) string { return i.ID }},
			{Title: "VERSION", Value: func(i *osimage.Image) string { return i.OpenshiftVersion }},
			{Title: "ARCHITECTURE", Value: func(i *osimage.Image) string { return i.CPUArchitecture }},
			{Title: "VOLUME", Value: func(i *osimage.Image) string { return i.VolumeID }},
			{Title: "SIZE", Value: func(i *osimage.Image) string {
				return output.Size(max(i.SizeBytes, i.TotalBytes))
			}},
			{Title: "SOURCE", Value: func(i *osimage.Image) string { return string(i.Source) }},
			{Title: "USED BY", Value: func(i *osimage.Image) string { return fmt.Sprint(i.InUseBy) }},
			{Title: "STATE", State: true, Value: (*osimage.Image).Progress},
			{Title: "NAME", Wide: true, Value: func(i *osimage.Image) string { return i.Name }},
			{Title: "SHA256", Wide: true, Value: func(i *osimage.Image) string { return i.SHA256 }},
		},
	}
}

func newVerify() *cobra.Command {
	l := &library{action.New()}
	return l.Formerly(&cobra.Command{
		Use:   "verify [ID...]",
		Short: "Verify the digests of live ISOs on a running appliance",
		Long: "Verify the digests of all live ISOs on a running appliance, or of the given ones (by ID or " +
			"name).\nThe exit code is 1 if an image is damaged.",
		RunE: func(cmd *cobra.Command, ids []string) error {
			images, err := l.named(cmd.Context(), ids)
			if err != nil {
				return err
			}
			bad := false
			for i := range images {
				if images[i], err = l.verify(cmd.Context(), images[i], cmd.ErrOrStderr()); err != nil {
					return err
				}
				bad = bad || images[i].State == osimage.StateBad
			}
			if l.Format.Tabular() {
				err = writeVerified(cmd.OutOrStdout(), images)
			} else {
				err = kind().Objects(cmd.OutOrStdout(), &l.Format, images)
			}
			if err == nil && bad {
				return &outcome.CodeError{Code: outcome.Failure}
			}
			return err
		},
	})
}

// named returns the images with the given IDs or names. Without IDs, it returns all images.
func (l *library) named(ctx context.Context, ids []string) ([]osimage.Image, error) {
	if len(ids) == 0 {
		return l.osImages(ctx)
	}
	var images []osimage.Image
	for _, id := range ids {
		image, err := l.osImage(ctx, id)
		if err != nil {
			return nil, err
		}
		images = append(images, *image)
	}
	return images, nil
}

// verify starts the verification of an image and waits for the result.
func (l *library) verify(ctx context.Context, image osimage.Image, errOut io.Writer) (osimage.Image, error) {
	before := image.VerifiedAt
	err := l.Call(ctx, http.MethodPost, osImagesPath+"/"+url.PathEscape(image.ID)+"/verify", nil, &image)
	if err != nil {
		return image, err
	}
	image, err = l.follow(ctx, image, "verifying "+image.Name, errOut,
		func(state osimage.State) bool { return state == osimage.StateVerifying })
	if err == nil && image.State == osimage.StateReady && image.VerifiedAt.Equal(before) {
		err = fmt.Errorf("the verification of %s was interrupted, for example by a restart of the appliance; run "+
			"landfall iso verify %s again", image.Name, image.ID)
	}
	return image, err
}

// follow shows the progress of an image while pending reports true for its state.
func (l *library) follow(ctx context.Context, image osimage.Image, activity string, errOut io.Writer,
	pending func(osimage.State) bool) (osimage.Image, error) {
	meter := output.NewMeter(errOut, activity, image.TotalBytes)
	defer meter.End()
	ticker := time.NewTicker(imagePollInterval)
	defer ticker.Stop()
	printed := ""
	for pending(image.State) {
		select {
		case <-ctx.Done():
			return image, ctx.Err()
		case <-ticker.C:
		}
		found, err := l.osImage(ctx, image.ID)
		if err != nil {
			return image, err
		}
		image = *found
		meter.Set(image.DoneBytes, image.TotalBytes)
		if image.Message != printed && image.Message != "" && pending(image.State) {
			printed = image.Message
			next := ""
			if image.TriesAgain() {
				next = "; the appliance tries again until landfall iso remove " + image.ID
			}
			fmt.Fprintf(errOut, "landfall: %s%s\n", image.Progress(), next)
		}
	}
	return image, nil
}

func writeVerified(out io.Writer, images []osimage.Image) error {
	for _, image := range images {
		line := image.ID + " " + output.OrDash(image.Name) + ": "
		switch {
		case image.State == osimage.StateReady:
			line += "valid, sha256 " + image.SHA256
		default:
			line += image.Progress()
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func newRemove() *cobra.Command {
	l := &library{action.New()}
	return l.Removing(&cobra.Command{
		Use:     "remove ID...",
		Aliases: []string{"rm"},
		Short:   "Remove live ISOs, uploads and downloads from a running appliance",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			images, err := l.named(cmd.Context(), ids)
			if err != nil {
				return err
			}
			names := make([]string, len(images))
			for i, image := range images {
				names[i] = image.Name
			}
			if err := l.Confirm(cmd, strings.Join(ids, " "), "The appliance no longer has "+
				strings.Join(names, ", ")+"."); err != nil {
				return err
			}
			for _, image := range images {
				path := osImagesPath + "/" + url.PathEscape(image.ID)
				if _, err := l.Send(cmd, http.MethodDelete, path, nil); err != nil {
					return err
				}
				if l.DryRun {
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s %s\n", image.ID, image.Name)
			}
			return nil
		},
	})
}
