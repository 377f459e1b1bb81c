package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// completions are the shells with the places of their completions.
var completions = map[string]string{
	"bash": "/usr/share/bash-completion/completions/landfall",
	"fish": "/usr/share/fish/vendor_completions.d/landfall.fish",
}

// zshCompletion is the place of zsh's completion for a kind of package.
var zshCompletion = map[string]string{
	"deb": "/usr/share/zsh/vendor-completions/_landfall",
	"rpm": "/usr/share/zsh/site-functions/_landfall",
}

// writeReference writes the manual pages (compressed) and the completions, which the program makes
// from the definitions of its commands, into a directory.
func (b *build) writeReference(ctx context.Context, stage string) error {
	plain := filepath.Join(stage, "plain")
	if _, err := b.landfall(ctx, "man", plain); err != nil {
		return err
	}
	pages, err := names(plain)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(stage, "man"), 0o755); err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(plain, page))
		if err != nil {
			return err
		}
		compressed, err := compress(text)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(stage, "man", page+".gz"), compressed, 0o644); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := b.landfall(ctx, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(stage, shell), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// landfall runs the program of this machine. Its environment is empty, because the defaults of some
// flags depend on it.
func (b *build) landfall(ctx context.Context, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.native, arguments...)
	cmd.Env = []string{"HOME=/"}
	var failure bytes.Buffer
	cmd.Stderr = &failure
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w %s", b.native, arguments[0], err, failure.String())
	}
	return text, nil
}

// compress returns a text in gzip's format, without a time.
func compress(text []byte) ([]byte, error) {
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(text); err != nil {
		return nil, err
	}
	err = writer.Close()
	return compressed.Bytes(), err
}
