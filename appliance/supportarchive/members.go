package supportarchive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"text/tabwriter"
	"time"
)

// text returns a member whose content passes through redact.
func text(name, about string, redact func(string) string, write func(context.Context, io.Writer) error) Member {
	return Member{name, about, func(ctx context.Context, out io.Writer) error {
		var content bytes.Buffer
		err := write(ctx, &content)
		_, writeErr := io.WriteString(out, redact(content.String()))
		if err == nil {
			err = writeErr
		}
		return err
	}}
}

// inJSON returns a member with a value as JSON, which passes through redact.
func inJSON(name, about string, redact func(string) string, read func(context.Context) (any, error)) Member {
	return text(name, about, redact, func(ctx context.Context, out io.Writer) error {
		value, err := read(ctx)
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	})
}

// Version returns a member with the versions of the program and of its machine.
func Version(version string) Member {
	return Member{"version.txt", "versions of the program, of Go and of the operating system",
		func(_ context.Context, out io.Writer) error {
			fmt.Fprintf(out, "landfall %s\n%s %s/%s, %d processors\n", version, runtime.Version(), runtime.GOOS,
				runtime.GOARCH, runtime.NumCPU())
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, setting := range info.Settings {
					fmt.Fprintf(out, "%s %s\n", setting.Key, setting.Value)
				}
			}
			for _, file := range []string{"/proc/version", "/etc/os-release"} {
				if text, err := os.ReadFile(file); err == nil {
					fmt.Fprintf(out, "\n%s:\n%s", file, text)
				}
			}
			return nil
		}}
}

// Process returns a member that describes this process and the load of its machine.
func Process() Member {
	return Member{"process.txt", "memory, limits and control group of the process", writeProcess}
}

// profiles returns the stacks and the memory of this process.
func profiles() []Member {
	return []Member{
		{"goroutines.txt", "stacks of all goroutines", func(_ context.Context, out io.Writer) error {
			return pprof.Lookup("goroutine").WriteTo(out, 2)
		}},
		{"heap.pprof", "memory by place of its allocation; go tool pprof reads it",
			func(_ context.Context, out io.Writer) error { return pprof.Lookup("heap").WriteTo(out, 0) }},
	}
}

func writeProcess(_ context.Context, out io.Writer) error {
	for _, file := range []string{"/proc/self/status", "/proc/self/limits", "/proc/self/cgroup", "/proc/self/mountinfo",
		"/proc/loadavg", "/proc/meminfo", "/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"} {
		if text, err := os.ReadFile(file); err == nil {
			fmt.Fprintf(out, "%s:\n%s\n", file, text)
		}
	}
	return nil
}

// Files returns a member that lists the files below the data directory.
func Files(dir string) Member {
	return Member{"files.txt", "files in the data directory: size, time, mode, name",
		func(ctx context.Context, out io.Writer) error {
			table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
			err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				name, relErr := filepath.Rel(dir, path)
				if relErr != nil {
					return relErr
				}
				if err != nil {
					fmt.Fprintf(table, "\t\t\t %s: %s\n", name, err)
					return nil
				}
				info, err := entry.Info()
				if err != nil {
					fmt.Fprintf(table, "\t\t\t %s: %s\n", name, err)
					return nil
				}
				fmt.Fprintf(table, "%d\t%s\t%s\t %s\n", info.Size(), info.ModTime().UTC().Format(time.RFC3339),
					info.Mode(), name)
				return nil
			})
			if flushed := table.Flush(); err == nil {
				err = flushed
			}
			return err
		}}
}
