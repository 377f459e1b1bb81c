package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/osimage"
	"landfall/web/console"
)

const osImagesPath = console.BasePath + "/os-images"

// imagePollInterval is the interval between two requests for an image's progress.
const imagePollInterval = 300 * time.Millisecond

func (c *client) osImages(ctx context.Context) ([]osimage.Image, error) {
	var list struct {
		OSImages []osimage.Image `json:"os_images"`
	}
	return list.OSImages, c.call(ctx, http.MethodGet, osImagesPath, nil, &list)
}

// osImage finds an image by its ID, a prefix of the ID, or its name.
func (c *client) osImage(ctx context.Context, wanted string) (*osimage.Image, error) {
	images, err := c.osImages(ctx)
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

func newISOList() *cobra.Command {
	var asJSON bool
	appliance := newClient()
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the live ISOs of a running appliance",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := appliance.osImages(cmd.Context())
			if err != nil {
				return err
			}
			return writeOSImages(cmd.OutOrStdout(), asJSON, images)
		},
	}
	appliance.addFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func writeOSImages(out io.Writer, asJSON bool, images []osimage.Image) error {
	if asJSON {
		return writeJSON(out, images)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tVERSION\tARCHITECTURE\tVOLUME\tSIZE\tSOURCE\tUSED BY\tSTATE")
	for _, image := range images {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", image.ID, orDash(image.OpenshiftVersion),
			orDash(image.CPUArchitecture), orDash(image.VolumeID),
			output.Size(max(image.SizeBytes, image.TotalBytes)), image.Source, image.InUseBy, image.Progress())
	}
	return table.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func newISOVerify() *cobra.Command {
	var asJSON bool
	appliance := newClient()
	cmd := &cobra.Command{
		Use:   "verify [ID...]",
		Short: "Verify the digests of live ISOs on a running appliance",
		Long: "Verify the digests of all live ISOs on a running appliance, or of the given ones (by ID or " +
			"name).\nThe exit code is 1 if an image is damaged.",
		RunE: func(cmd *cobra.Command, ids []string) error {
			images, err := appliance.named(cmd.Context(), ids)
			if err != nil {
				return err
			}
			bad := false
			for i := range images {
				if images[i], err = appliance.verify(cmd.Context(), images[i], cmd.ErrOrStderr()); err != nil {
					return err
				}
				bad = bad || images[i].State == osimage.StateBad
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), images)
			} else {
				err = writeVerified(cmd.OutOrStdout(), images)
			}
			if err == nil && bad {
				return &outcome.CodeError{Code: outcome.Failure}
			}
			return err
		},
	}
	appliance.addFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// named returns the images with the given IDs or names. Without IDs, it returns all images.
func (c *client) named(ctx context.Context, ids []string) ([]osimage.Image, error) {
	if len(ids) == 0 {
		return c.osImages(ctx)
	}
	var images []osimage.Image
	for _, id := range ids {
		image, err := c.osImage(ctx, id)
		if err != nil {
			return nil, err
		}
		images = append(images, *image)
	}
	return images, nil
}

// verify starts the verification of an image and waits for the result.
func (c *client) verify(ctx context.Context, image osimage.Image, errOut io.Writer) (osimage.Image, error) {
	if err := c.call(ctx, http.MethodPost, osImagesPath+"/"+url.PathEscape(image.ID)+"/verify", nil,
		&image); err != nil {
		return image, err
	}
	return c.follow(ctx, image, "verifying "+image.Name, errOut,
		func(state osimage.State) bool { return state == osimage.StateVerifying })
}

// follow shows the progress of an image while pending reports true for its state.
func (c *client) follow(ctx context.Context, image osimage.Image, activity string, errOut io.Writer,
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
		found, err := c.osImage(ctx, image.ID)
		if err != nil {
			return image, err
		}
		image = *found
		meter.Set(image.DoneBytes, image.TotalBytes)
		if image.Message != printed && image.Message != "" && pending(image.State) {
			printed = image.Message
			fmt.Fprintf(errOut, "landfall: %s\n", image.Progress())
		}
	}
	return image, nil
}

func writeVerified(out io.Writer, images []osimage.Image) error {
	for _, image := range images {
		line := image.ID + " " + orDash(image.Name) + ": "
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

func newISORemove() *cobra.Command {
	appliance := newClient()
	cmd := &cobra.Command{
		Use:     "remove ID...",
		Aliases: []string{"rm"},
		Short:   "Remove live ISOs, uploads and downloads from a running appliance",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			images, err := appliance.named(cmd.Context(), ids)
			if err != nil {
				return err
			}
			for _, image := range images {
				if err := appliance.call(cmd.Context(), http.MethodDelete, osImagesPath+"/"+url.PathEscape(image.ID),
					nil, nil); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s %s\n", image.ID, image.Name)
			}
			return nil
		},
	}
	appliance.addFlag(cmd.Flags())
	return cmd
}
