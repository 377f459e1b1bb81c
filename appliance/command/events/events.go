// Package events has the commands that show what happened: events and logs.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/web/console"
)

// page is the number of events in one request.
const page = 1000

func kind() *output.Kind[models.Event] {
	type column = output.Column[models.Event]
	return &output.Kind[models.Event]{
		Name: "event", Empty: "No events.",
		NameOf: func(e *models.Event) string { return e.Name },
		Columns: []column{
			{Title: "TIME", Value: func(e *models.Event) string {
				return output.Time(time.Time(conv.Value(e.EventTime)))
			}},
			{Title: "SEVERITY", State: true, Value: func(e *models.Event) string { return conv.Value(e.Severity) }},
			{Title: "NAME", Wide: true, Value: func(e *models.Event) string { return e.Name }},
			{Title: "MESSAGE", Value: func(e *models.Event) string { return conv.Value(e.Message) }},
		},
	}
}

// selection are the flags that select events.
type selection struct {
	*action.Action
	cluster, infraEnv, host, severity string
	follow                            bool
	last                              int

	changes *remote.Changes // with follow
}

// New returns the command that shows events.
func New() *cobra.Command {
	s := &selection{Action: action.New()}
	cmd := s.Reading(&cobra.Command{
		Use:     "events",
		Aliases: []string{"event"},
		Short:   "Show what happened at clusters, infra-envs and hosts",
		Long: "Show events, the oldest first. -f shows further events until it is interrupted. With -o json, -f " +
			"writes " +
			"one object after the\nother.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	})
	flags := cmd.Flags()
	flags.BoolVarP(&s.follow, "follow", "f", false, "show further events until interrupted")
	flags.StringVar(&s.cluster, "cluster", "", "only those of a cluster")
	flags.StringVar(&s.infraEnv, "infra-env", "", "only those of an infra-env")
	flags.StringVar(&s.host, "host", "", "only those of a host")
	flags.StringVar(&s.severity, "severity", "", "only these severities, separated by commas: info, warning, error, "+
		"critical")
	flags.IntVar(&s.last, "last", 0, "only this number of the latest events")
	output.Choices(cmd, "severity", "info", "warning", "error", "critical")
	return cmd
}

func (s *selection) query(cmd *cobra.Command) (url.Values, error) {
	query := url.Values{}
	if s.cluster != "" {
		id, err := s.ClusterID(cmd.Context(), s.cluster)
		if err != nil {
			return nil, err
		}
		query.Set("cluster_id", id)
	}
	if s.infraEnv != "" {
		id, err := s.InfraEnvID(cmd.Context(), s.infraEnv)
		if err != nil {
			return nil, err
		}
		query.Set("infra_env_id", id)
	}
	if s.host != "" {
		host, err := s.Host(cmd.Context(), s.host, query.Get("cluster_id"))
		if err != nil {
			return nil, err
		}
		query.Set("host_id", host.ID)
	}
	if s.severity != "" {
		query.Set("severities", s.severity)
	}
	query.Set("order", "ascending")
	return query, nil
}

func (s *selection) run(cmd *cobra.Command) error {
	query, err := s.query(cmd)
	if err != nil {
		return err
	}
	if s.follow {
		cluster := query.Get("cluster_id")
		s.changes = s.FollowAll(cmd.Context(), func(change console.Change) bool {
			return change.Kind == "events" && (cluster == "" || change.ClusterID == cluster)
		})
		defer s.changes.Close()
	}
	list, err := s.since(cmd, query, 0)
	if err != nil {
		return err
	}
	shown := list
	if s.last > 0 && len(shown) > s.last {
		shown = shown[len(shown)-s.last:]
	}
	if !s.follow {
		text, err := json.Marshal(shown)
		if err != nil {
			return fmt.Errorf("write the events: %w", err)
		}
		return kind().List(cmd.OutOrStdout(), &s.Format, text)
	}
	seen, events := len(list), kind()
	for headers := true; ; headers = false {
		if err := events.Rows(cmd.OutOrStdout(), &s.Format, shown, headers); err != nil {
			return err
		}
		if s.changes.Next(cmd.Context()) != nil {
			return nil // interrupted
		}
		if shown, err = s.since(cmd, query, seen); err != nil {
			return err
		}
		seen += len(shown)
	}
}

// since returns the selected events after a number of events.
func (s *selection) since(cmd *cobra.Command, query url.Values, offset int) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for {
		query.Set("limit", strconv.Itoa(page))
		query.Set("offset", strconv.Itoa(offset+len(all)))
		var list []json.RawMessage
		if err := s.Call(cmd.Context(), http.MethodGet, remote.APIPath+"/events?"+query.Encode(), nil,
			&list); err != nil {
			return nil, err
		}
		all = append(all, list...)
		if len(list) < page {
			return all, nil
		}
	}
}

// NewLogs returns the command that downloads logs.
func NewLogs() *cobra.Command {
	a := action.New()
	var cluster, name, file string
	cmd := &cobra.Command{
		Use:   "logs --cluster NAME",
		Short: "Download the logs of a cluster's installation",
		Long: "Download the logs that the hosts and the controller of a cluster's installation sent, as a tar " +
			"archive. " +
			"With --host, those\nof one host.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			id, err := a.ClusterID(cmd.Context(), cluster)
			if err != nil {
				return err
			}
			query, ending := "logs_type=all", ".tar"
			if name != "" {
				host, err := a.Host(cmd.Context(), name, id)
				if err != nil {
					return err
				}
				query, ending = "logs_type=host&host_id="+url.QueryEscape(host.ID), "-"+name+".tar.gz"
			}
			if file == "" {
				file = cluster + "-logs" + ending
			}
			return download(cmd, a, remote.ClusterPath(id)+"/logs?"+query, file)
		},
	}
	a.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&cluster, "cluster", "", "cluster whose logs they are")
	flags.StringVar(&name, "host", "", "only the logs of a host")
	flags.StringVarP(&file, "output", "o", "", "file to write; - is standard output; default: CLUSTER-logs.tar")
	return cmd
}

func download(cmd *cobra.Command, a *action.Action, path, file string) (err error) {
	response, err := a.Do(cmd.Context(), http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return fmt.Errorf("read the response of the appliance: %w", err)
		}
		return a.Refusal(http.MethodGet, path, response, text)
	}
	bar := output.NewMeter(cmd.ErrOrStderr(), "logs", response.ContentLength)
	defer bar.End()
	if file == "-" {
		_, err := io.Copy(io.MultiWriter(cmd.OutOrStdout(), bar), response.Body)
		return err
	}
	target, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the logs: %w; choose another file with -o", err)
	}
	size, err := io.Copy(io.MultiWriter(target, bar), response.Body)
	if err = errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("write the logs: %w", err)
	}
	bar.End()
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", file, output.Size(size))
	return err
}
