package appliance

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"landfall/web"
)

// recentLines is how many lines of the log are kept in memory for journals; they take about 2 MiB.
const recentLines = 4096

// recentLog remembers the latest lines of the appliance's log, as records: they are only written
// out when a journal is made.
type recentLog struct {
	mu    sync.Mutex
	lines []recentLine // a ring once it is full
	next  int
}

type recentLine struct {
	record  slog.Record
	request string
	attrs   []slog.Attr
}

// logger returns a logger that hands everything on and has it remembered from the level info.
func (l *recentLog) logger(to *slog.Logger) *slog.Logger {
	return slog.New(&recentHandler{Handler: to.Handler(), log: l})
}

type recentHandler struct {
	slog.Handler
	log   *recentLog
	attrs []slog.Attr
}

func (h *recentHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

func (h *recentHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo {
		h.log.add(recentLine{record: record.Clone(), request: web.RequestID(ctx), attrs: h.attrs})
	}
	if !h.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h *recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recentHandler{h.Handler.WithAttrs(attrs), h.log, append(slices.Clip(h.attrs), attrs...)}
}

func (h *recentHandler) WithGroup(name string) slog.Handler {
	return &recentHandler{h.Handler.WithGroup(name), h.log, h.attrs}
}

func (l *recentLog) add(line recentLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < recentLines {
		l.lines = append(l.lines, line)
		return
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % recentLines
}

// write writes the lines that mention one of the ids, in order, through a function that may alter
// them.
func (l *recentLog) write(out io.Writer, ids []string, alter func(string) string) error {
	l.mu.Lock()
	lines := append(slices.Clone(l.lines[l.next:]), l.lines[:l.next]...)
	l.mu.Unlock()
	var text bytes.Buffer
	handler := slog.NewTextHandler(&text, nil)
	for _, line := range lines {
		text.Reset()
		record := line.record
		record.AddAttrs(line.attrs...)
		if line.request != "" {
			record.AddAttrs(slog.String("request_id", line.request))
		}
		if err := handler.Handle(context.Background(), record); err != nil {
			return err
		}
		written := text.String()
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(written, id) }) {
			continue
		}
		if _, err := io.WriteString(out, strings.TrimSuffix(alter(written), "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
