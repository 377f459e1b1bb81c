// Package journal has the commands on the journals of clusters.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/engine"
	"landfall/appliance/fleet"
	"landfall/appliance/journal"
	"landfall/appliance/sentence"
	"landfall/store"
	"landfall/web/console"
)

// New returns the command. version is that of the program, for the journal.
func New(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Export a cluster's journal, and replay it on another machine",
	}
	cmd.AddCommand(newExport(version), newReplay())
	return cmd
}

// journalExport holds the options of landfall journal export.
type journalExport struct {
	appliance              *action.Action
	cluster, file, dataDir string
	version                string // of the program
}

func newExport(version string) *cobra.Command {
	o := &journalExport{appliance: action.New(), version: version}
	cmd := &cobra.Command{
		Use:   "export --cluster ID|NAME",
		Short: "Write the journal of a cluster to a signed file without secrets",
		Long: "Write the journal of a cluster to one file: its objects, events, the replies of hosts, each change " +
			"with its time, and logs.\nThe site signs the file, which contains no secrets. Name a deleted " +
			"cluster by its ID. The command uses the running\nappliance, or with --data-dir the data of a stopped " +
			"appliance.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.cluster == "" {
				return outcome.Usagef("--cluster is missing; landfall cluster list lists all clusters")
			}
			if o.dataDir != "" && cmd.Flags().Changed("url") {
				return outcome.Usagef("give either --data-dir (a stopped appliance) or --url")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.appliance.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "ID or name of the cluster")
	flags.StringVarP(&o.file, "output", "o", "",
		"file to write; - is standard output; default: a name with the cluster and the time")
	flags.StringVar(&o.dataDir, "data-dir", "", "data directory of a stopped appliance")
	return cmd
}

func (o *journalExport) run(ctx context.Context, out, errOut io.Writer) error {
	save := func(name string, content func(io.Writer) error) error {
		if o.file == "-" {
			return content(out)
		}
		if o.file != "" {
			name = o.file
		}
		if err := output.WriteFile(name, content); err != nil {
			return err
		}
		_, err := fmt.Fprintf(errOut, "written: %s\n", name)
		return err
	}
	if o.dataDir == "" {
		return o.fetch(ctx, errOut, save)
	}
	if err := fleet.CheckAlone(o.dataDir); err != nil { // the export opens the database
		return err
	}
	err := journal.FromDirectory(ctx, o.dataDir, engine.JournalLayout(), o.cluster, o.version, save)
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		return fmt.Errorf("%w; omit --data-dir to use the running appliance", held)
	}
	if errors.Is(err, journal.ErrNoData) {
		return fmt.Errorf("%w; check --data-dir", err)
	}
	return err
}

// fetch downloads the journal from the running appliance.
func (o *journalExport) fetch(ctx context.Context, errOut io.Writer,
	save func(string, func(io.Writer) error) error) error {
	if err := o.appliance.Resolve(ctx, &o.cluster); err != nil {
		return err
	}
	path := console.BasePath + "/clusters/" + url.PathEscape(o.cluster) + "/journal"
	response, err := o.appliance.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode >= http.StatusBadRequest {
		answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return err
		}
		return o.appliance.Refusal(http.MethodGet, path, response, answer)
	}
	name := "cluster" + journal.Extension
	if _, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Disposition")); err == nil &&
		parameters["filename"] != "" {
		name = filepath.Base(parameters["filename"])
	}
	return save(name, func(out io.Writer) error {
		body, end := output.Metered(errOut, "journal", response.Body, response.ContentLength)
		defer end()
		if _, err := io.Copy(out, body); err != nil {
			return fmt.Errorf("the appliance aborted the export (%w); see its log", err)
		}
		return nil
	})
}

// journalReplay holds the options of landfall journal replay.
type journalReplay struct {
	format        output.Format
	asJSON, quiet bool
	until, key    string
	show          []string
	number        int
	at            time.Time
}

func newReplay() *cobra.Command {
	o := &journalReplay{}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay the journal of a cluster, step by step",
		Long: "Replay the journal of a cluster step by step: each change with its time, author and result. The " +
			"command verifies the signature,\neach changed object after each step, and at the end the whole state " +
			"against the hash that the site signed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if err := o.readUntil(); err != nil {
				return err
			}
			return o.run(cmd.OutOrStdout(), cmd.InOrStdin(), arguments[0])
		},
	}
	flags := cmd.Flags()
	o.format.AddFlag(cmd)
	flags.BoolVar(&o.asJSON, "json", false, "write each step and the end as a line of JSON, as it is replayed")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "write only the beginning and the end")
	flags.StringVar(&o.until, "until", "",
		"end of the replay: the number of a step, or a time such as 2026-03-01T12:00:00Z")
	flags.StringSliceVar(&o.show, "show", nil,
		"also write the final objects whose keys begin so, such as /clusters or /hosts; / writes all of them")
	flags.StringVar(&o.key, "key", "", "fingerprint (SHA256:...) of the key that must have signed the journal")
	return cmd
}

func (o *journalReplay) readUntil() error {
	if o.until == "" {
		return nil
	}
	var err error
	if o.number, err = strconv.Atoi(o.until); err == nil && o.number > 0 {
		return nil
	}
	if o.at, err = time.Parse(time.RFC3339, o.until); err != nil {
		return outcome.Usagef("--until %s is neither the number of a step nor a time such as 2026-03-01T12:00:00Z",
			o.until)
	}
	return nil
}

// stops reports whether the replay ends before a step.
func (o *journalReplay) stops(step *journal.Step) bool {
	return o.number > 0 && step.Number > o.number || !o.at.IsZero() && step.At.After(o.at)
}

func (o *journalReplay) run(out io.Writer, stdin io.Reader, name string) (err error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		in = file
	}
	archive, err := journal.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fingerprint := archive.Manifest.Key.Fingerprint()
	if o.key != "" && o.key != fingerprint {
		return fmt.Errorf("%s is signed with the key %s, not with %s: the journal belongs to another site", name,
			fingerprint, o.key)
	}
	replayer, err := journal.NewReplayer(&archive.Recording)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w := &replayWriter{out: out, options: o, archive: archive, lines: o.asJSON || !o.format.Tabular()}
	w.begin()
	describer := journal.NewDescriber(archive.Recording.Base)
	for replayer.Next() != nil && !o.stops(replayer.Next()) {
		applied, err := replayer.Apply()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.step(applied, describer.Describe(applied))
	}
	rest := replayer.Next()
	hash, err := replayer.State().Hash()
	if err != nil {
		return err
	}
	w.end(replayer.State(), rest, hash)
	if rest == nil && hash != archive.Manifest.State {
		return fmt.Errorf("%s: the state at the end of the replay differs from the state that the site signed; the "+
			"journal is incomplete",
			name)
	}
	return errors.Join(w.err, w.document(fingerprint))
}

// replayWriter prints a replay for people or programs.
type replayWriter struct {
	out     io.Writer
	options *journalReplay
	archive *journal.Archive
	// lines are for programs: written immediately with --json, at the end as a document with -o.
	lines bool
	held  []any
	err   error
}

func (w *replayWriter) printf(format string, args ...any) {
	_, err := io.WriteString(w.out, sentence.Printable(fmt.Sprintf(format, args...)))
	w.err = errors.Join(w.err, err)
}

func (w *replayWriter) line(value any) {
	if !w.options.asJSON {
		w.held = append(w.held, value)
		return
	}
	encoder := json.NewEncoder(w.out)
	encoder.SetEscapeHTML(false)
	w.err = errors.Join(w.err, encoder.Encode(value))
}

// document writes the held lines in the format of -o.
func (w *replayWriter) document(fingerprint string) error {
	if !w.lines || w.options.asJSON {
		return nil
	}
	return w.options.format.Document(w.out, "journal", fingerprint, w.held, nil)
}

func (w *replayWriter) begin() {
	m := &w.archive.Manifest
	if w.lines {
		w.line(map[string]any{"journal": m, "signature": "valid", "fingerprint": m.Key.Fingerprint()})
		return
	}
	w.printf("Cluster %s (%s)\n  exported   %s by Landfall %s, %d steps up to revision %d\n  signature  valid; the "+
		"site's key is %s\n",
		m.ClusterName, m.ClusterID, output.Time(m.MadeAt), m.Landfall, m.Steps, m.Revision, m.Key.Fingerprint())
	for _, member := range m.Members {
		if strings.HasPrefix(member.Name, "logs/") {
			w.printf("  log        %s, %d bytes (tar xzf)\n", member.Name, member.Size)
		}
	}
	for _, note := range m.Notes {
		w.printf("  note       %s\n", note)
	}
	if count := len(w.archive.Recording.Base); count > 0 {
		w.printf("  beginning  %d objects existed before the first step\n", count)
	}
	w.printf("\n")
}

func (w *replayWriter) step(applied *journal.AppliedStep, description journal.Description) {
	switch {
	case w.options.quiet:
	case w.lines:
		w.line(struct {
			*journal.Step
			journal.Description
		}{applied.Step, description})
	default:
		at := "time unknown"
		if !applied.At.IsZero() {
			at = applied.At.UTC().Format("2006-01-02 15:04:05.000 UTC")
		}
		w.printf("#%-4d %s  +%-9s %-9s %s\n", applied.Number, at, description.Delay.Round(time.Millisecond),
			description.Actor,
			description.Operation)
		for _, line := range description.Lines {
			w.printf("        %-10s %s\n", line.Kind, line.Text)
		}
	}
}

func (w *replayWriter) end(state journal.State, rest *journal.Step, hash string) {
	m := &w.archive.Manifest
	if w.lines {
		w.line(map[string]any{"end": map[string]any{"objects": len(state), "state_sha256": hash,
			"signed_sha256": m.State, "complete": rest == nil, "same": hash == m.State}})
	} else {
		w.printf("\nEnd: %d objects, state %s\n", len(state), hash)
		switch {
		case rest != nil:
			w.printf("Stopped before step %d of %d; the site signed the state after the last step.\n", rest.Number,
				m.Steps)
		case hash == m.State:
			w.printf("The state matches the hash that the site signed.\n")
		default:
			w.printf("The site signed the state %s.\n", m.State)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if !slices.ContainsFunc(w.options.show, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			continue
		}
		if w.lines {
			w.line(map[string]any{"key": key, "value": state[key]})
			continue
		}
		text, err := json.MarshalIndent(state[key], "", "  ")
		w.err = errors.Join(w.err, err)
		w.printf("\n%s\n%s\n", key, text)
	}
}
