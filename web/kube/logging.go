package kube

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/klog/v2"
)

// The libraries log with klog, which has one logger per process. The first API sets it.
var logOnce sync.Once

func logTo(logger *slog.Logger) {
	logOnce.Do(func() { klog.SetSlogLogger(slog.New(quieterSink{logger.Handler()}).With("component", "kubernetes")) })
}

// quieterSink lowers the level of the libraries' messages: their informational messages are only
// useful for debugging, and most of their errors are errors of clients.
type quieterSink struct{ slog.Handler }

func (c quieterSink) Enabled(ctx context.Context, level slog.Level) bool {
	return c.Handler.Enabled(ctx, calm(level))
}

func (c quieterSink) Handle(ctx context.Context, record slog.Record) error {
	calmed := slog.NewRecord(record.Time, calm(record.Level), record.Message, record.PC)
	record.Attrs(func(attribute slog.Attr) bool {
		// The cause of a panic may contain secrets of a request.
		if attribute.Key != "panic" && attribute.Key != "panicGoValue" {
			calmed.AddAttrs(attribute)
		}
		return true
	})
	return c.Handler.Handle(ctx, calmed)
}

func (c quieterSink) WithAttrs(attributes []slog.Attr) slog.Handler {
	return quieterSink{c.Handler.WithAttrs(attributes)}
}

func (c quieterSink) WithGroup(name string) slog.Handler {
	return quieterSink{c.Handler.WithGroup(name)}
}

func calm(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
