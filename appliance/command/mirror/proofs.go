package mirror

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/output"
	"landfall/appliance/mirror/site"
	"landfall/web/console"
)

func newProofs() *cobra.Command {
	a := action.New()
	var list, format string
	cmd := a.Reading(&cobra.Command{
		Use: "proofs", Short: "List the latest checks of the mirror, or write the missing images of one",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list != "" {
				text, err := a.Fetch(cmd.Context(), console.MirrorProofsRoute+"/"+url.PathEscape(list)+"/list?format="+
					url.QueryEscape(format))
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			var found struct {
				Proofs json.RawMessage `json:"proofs"`
			}
			if err := a.Call(cmd.Context(), http.MethodGet, console.MirrorProofsRoute, nil, &found); err != nil {
				return err
			}
			return proofs().List(cmd.OutOrStdout(), &a.Format, found.Proofs)
		},
	})
	cmd.Flags().StringVar(&list, "list", "", "ID of a check whose missing images to write, for landfall courier fill")
	cmd.Flags().StringVar(&format, "format", "text", "format of the list: text, imageset (for oc-mirror), csv")
	output.Choices(cmd, "format", "text", "imageset", "csv")
	return cmd
}

func proofs() *output.Kind[site.Proof] {
	type column = output.Column[site.Proof]
	return &output.Kind[site.Proof]{
		Name: "proof", Empty: "The mirror has not been checked yet. landfall mirror prove checks it.",
		NameOf: func(p *site.Proof) string { return p.ID },
		Columns: []column{
			{Title: "ID", Value: func(p *site.Proof) string { return p.ID }},
			{Title: "STARTED", Value: func(p *site.Proof) string { return output.Time(p.Started) }},
			{Title: "STATE", State: true, Value: func(p *site.Proof) string { return p.State }},
			{Title: "MISSING", Value: func(p *site.Proof) string { return fmt.Sprint(p.Gaps) }},
			{Title: "IMAGES", Value: func(p *site.Proof) string { return fmt.Sprintf("%d/%d", p.Images, p.Total) }},
			{Title: "RELEASE", Value: func(p *site.Proof) string { return p.Release }},
			{Title: "CLUSTER", Wide: true, Value: func(p *site.Proof) string { return p.ClusterID }},
			{Title: "RESULT", Wide: true, Value: func(p *site.Proof) string { return p.Message }},
		},
	}
}
