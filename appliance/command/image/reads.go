package image

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/discovery"
	"landfall/web/console"
	"landfall/web/image/progress"
)

func path(infraEnvID, ending string) string {
	return console.BasePath + "/infra-envs/" + url.PathEscape(infraEnvID) + ending
}

func newReads() *cobra.Command {
	s := &source{Action: action.New()}
	cmd := &cobra.Command{
		Use: "reads --infra-env NAME", Short: "List the machines that have read an image, with their progress",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := s.id(cmd.Context())
			if err != nil {
				return err
			}
			var found struct {
				Reads json.RawMessage `json:"reads"`
			}
			if err := s.Call(cmd.Context(), http.MethodGet, path(id, "/reads"), nil, &found); err != nil {
				return err
			}
			return reads().List(cmd.OutOrStdout(), &s.Format, found.Reads)
		},
	}
	s.addFlags(cmd)
	s.Format.AddFlag(cmd)
	return cmd
}

func reads() *output.Kind[progress.Report] {
	type column = output.Column[progress.Report]
	return &output.Kind[progress.Report]{
		Name: "read", Empty: "No machine has read the image since the appliance started.",
		NameOf: func(r *progress.Report) string { return r.Client },
		Columns: []column{
			{Title: "MACHINE", Value: func(r *progress.Report) string { return r.Client }},
			{Title: "IMAGE", Value: func(r *progress.Report) string { return r.Kind }},
			{Title: "STATE", State: true, Value: func(r *progress.Report) string { return string(r.State) }},
			{Title: "SHARE", Value: func(r *progress.Report) string { return fmt.Sprintf("%.0f%%", r.SharePercent) }},
			{Title: "SENT", Value: func(r *progress.Report) string { return output.Size(r.Bytes) }},
			{Title: "LAST READ", Value: func(r *progress.Report) string {
				return output.Time(r.LastRead)
			}},
			{Title: "REQUESTS", Wide: true, Value: func(r *progress.Report) string { return fmt.Sprint(r.Requests) }},
			{Title: "MEANING", Wide: true, Value: func(r *progress.Report) string { return r.Sentence }},
		},
	}
}

func newShortURL() *cobra.Command {
	s := &source{Action: action.New()}
	var valid time.Duration
	var renew, revoke bool
	cmd := s.Changing(&cobra.Command{
		Use: "short-url --infra-env NAME", Short: "Show, replace or delete the short URL of an image, for BMCs",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if renew && revoke {
				return outcome.Usagef("give --renew or --revoke, and not both")
			}
			if limited := cmd.Flags().Changed("for"); limited && !renew {
				return outcome.Usagef("--for limits a new short URL; give it with --renew")
			} else if limited && valid < time.Second {
				return outcome.Usagef("--for %s is invalid; give at least 1s, or no --for", valid)
			}
			id, err := s.id(cmd.Context())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case revoke:
				if _, err := s.Send(cmd, http.MethodDelete, path(id, "/short-url"), nil); err != nil || s.DryRun {
					return err
				}
				_, err = fmt.Fprintf(out, "The short URL of %s is no longer valid.\n", s.infraEnv)
				return err
			case renew:
				body := action.Object{}
				if valid > 0 {
					body["valid_seconds"] = int64(valid.Seconds())
				}
				answer, err := s.Send(cmd, http.MethodPost, path(id, "/short-url"), body)
				if err != nil || s.DryRun {
					return err
				}
				return shortURL().One(out, &s.Format, answer, describe)
			}
			var image discovery.Description
			if err := s.Call(cmd.Context(), http.MethodGet, path(id, "/image"), nil, &image); err != nil {
				return err
			}
			answer, err := json.Marshal(discovery.ShortURL{URL: image.ShortURL, Expires: image.ShortExpires})
			if err != nil {
				return fmt.Errorf("write the URL: %w", err)
			}
			return shortURL().One(out, &s.Format, answer, describe)
		},
	})
	cmd.Flags().StringVar(&s.infraEnv, "infra-env", "", "infra-env whose image it is")
	s.Format.AddFlag(cmd)
	cmd.Flags().BoolVar(&renew, "renew", false, "replace the short URL; the former one becomes invalid")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "delete the short URL")
	cmd.Flags().DurationVar(&valid, "for", 0, "with --renew: time for which it is valid; default: no limit")
	return cmd
}

func shortURL() *output.Kind[discovery.ShortURL] {
	return &output.Kind[discovery.ShortURL]{
		Name: "short-url", NameOf: func(s *discovery.ShortURL) string { return s.URL },
	}
}

func describe(d *output.Description, s *discovery.ShortURL) {
	if s.URL == "" {
		d.Add("URL", "none; make one with --renew")
		return
	}
	d.Add("URL", "%s", s.URL)
	if s.Expires != nil {
		d.Add("Valid until", "%s", output.Time(*s.Expires))
	}
}
