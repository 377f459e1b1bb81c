package upgrade_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/dataversion"
	"landfall/appliance/durable"
	"landfall/appliance/process/ownertest"
	"landfall/appliance/upgrade"
)

var kills = flag.Int("kills", 20, "number of random kills during upgrades")

// trailer is the end of a copy of testdata/program, which prints it: programs for Linux may have
// more bytes than their header says.
type trailer struct {
	Version  string `json:"version"`
	Platform string `json:"platform"`
	Data     int    `json:"data_version,omitempty"`
	Broken   bool   `json:"broken,omitempty"`   // it does not get ready
	Migrates bool   `json:"migrates,omitempty"` // it changes the data before
}

const mark = "\nthe trailer of a test program: "

func trailerOf(path string) *trailer {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	at := bytes.LastIndex(content, []byte(mark))
	end := new(trailer)
	if at < 0 || json.Unmarshal(content[at+len(mark):], end) != nil {
		return nil
	}
	return end
}

// childEnv has the arguments of an upgrade that this program makes instead of tests: the directory
// of the site and the file.
const childEnv = "LANDFALL_TEST_UPGRADE"

func TestMain(m *testing.M) {
	if dir, file, ok := strings.Cut(os.Getenv(childEnv), "\n"); ok {
		s := &site{dir: dir}
		fmt.Println("begun")
		if err := s.installation(clockwork.NewRealClock()).Upgrade(context.Background(), file, upgrade.Proof{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program returns testdata/program, built.
var program = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "landfall-test-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build testdata/program: %w: %s", err, output)
	}
	return os.ReadFile(path)
})

// site is a machine with an installed program.
type site struct {
	dir      string
	out      bytes.Buffer
	restarts []string // versions
}

func (s *site) program() string { return filepath.Join(s.dir, "bin", "landfall") }
func (s *site) data() string    { return filepath.Join(s.dir, "data") }

// write writes a program and returns its path.
func write(t *testing.T, path string, end trailer) string {
	t.Helper()
	content, err := program()
	require.NoError(t, err)
	end.Platform = runtime.GOOS + "/" + runtime.GOARCH
	text, err := json.Marshal(end)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, slices.Concat(content, []byte(mark), text), 0o700))
	return path
}

func newSite(t *testing.T, installed trailer) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	write(t, s.program(), installed)
	require.NoError(t, os.MkdirAll(s.data(), 0o700))
	require.NoError(t, s.start())
	s.restarts = nil
	return s
}

// start does what the start of the installed program does to the data directory.
func (s *site) start() error {
	end := trailerOf(s.program())
	if end == nil {
		return errors.New("the installed program is not complete")
	}
	s.restarts = append(s.restarts, end.Version)
	if end.Broken && !end.Migrates {
		return nil
	}
	state := dataversion.State{Version: max(1, end.Data), Target: max(1, end.Data), Program: end.Version}
	if end.Migrates {
		state.Backup = "backups/before-version-2.backup"
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(s.data(), dataversion.FileName), text, 0o600)
}

func (s *site) installation(clock clockwork.Clock) *upgrade.Installation {
	return &upgrade.Installation{Program: s.program(), DataDir: s.data(), Clock: clock, Out: &s.out, Limit: time.Minute,
		Backup:  func(_ context.Context, path string) error { return os.WriteFile(path, []byte("backup"), 0o600) },
		Restart: func(context.Context) error { return s.start() }, Command: "kill 1; then landfall serve",
		Ready: func(context.Context) error {
			if trailerOf(s.program()).Broken {
				if clock, ok := clock.(*clockwork.FakeClock); ok {
					clock.Advance(time.Minute) // nothing changes until the end
				}
				return errors.New("connection refused")
			}
			return nil
		}}
}

func (s *site) upgrade(t *testing.T, file string) error {
	t.Helper()
	return s.installation(clockwork.NewFakeClock()).Upgrade(t.Context(), file, upgrade.Proof{})
}

// requireInstalled requires the versions of the installed and of the former program.
func (s *site) requireInstalled(t *testing.T, installed, former string) {
	t.Helper()
	require.Equal(t, installed, trailerOf(s.program()).Version)
	if former == "" {
		require.NoFileExists(t, s.program()+upgrade.PreviousSuffix)
		return
	}
	require.Equal(t, former, trailerOf(s.program()+upgrade.PreviousSuffix).Version)
}

func TestUpgrade_replacesTheProgram(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	next := write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 2, Migrates: true})
	require.NoError(t, s.upgrade(t, next))
	s.requireInstalled(t, "1.1", "1.0")
	require.Equal(t, []string{"1.1"}, s.restarts)
	require.Contains(t, s.out.String(), "The appliance is ready with Landfall 1.1.")
	backups, err := filepath.Glob(filepath.Join(s.data(), "backups", "before-upgrade-*.backup"))
	require.NoError(t, err)
	require.Len(t, backups, 1)
	entries, err := os.ReadDir(filepath.Dir(s.program()))
	require.NoError(t, err)
	require.Len(t, entries, 2, "only the program and the former one")

	s.out.Reset()
	require.NoError(t, s.upgrade(t, next))
	require.Contains(t, s.out.String(), "already installed")
	require.Equal(t, []string{"1.1"}, s.restarts, "the same program was restarted")
}

func TestUpgrade_putsBackWhatIsNotReady(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	err := s.upgrade(t, write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1, Broken: true}))
	require.EqualError(t, err, "the appliance was not ready with Landfall 1.1 (not ready after 1m0s: connection "+
		"refused); Landfall 1.0 was put back and is ready")
	s.requireInstalled(t, "1.0", "1.1")
	require.Equal(t, []string{"1.1", "1.0"}, s.restarts)
}

func TestUpgrade_changedDataIsNotGivenToTheFormer(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	err := s.upgrade(t, write(t, filepath.Join(s.dir, "next"),
		trailer{Version: "1.1", Data: 2, Broken: true, Migrates: true}))
	require.ErrorContains(t, err, "it has changed the data already")
	require.ErrorContains(t, err,
		"landfall restore "+s.data()+"/backups/before-version-2.backup --data-dir NEW-DIRECTORY")
	s.requireInstalled(t, "1.1", "1.0")
	require.Equal(t, []string{"1.1"}, s.restarts)
}

func TestUpgrade_refusesWhatCannotUseTheData(t *testing.T) {
	s := newSite(t, trailer{Version: "1.1", Data: 2, Migrates: true})
	for _, older := range []trailer{{Version: "1.0", Data: 1}, {Version: "0.9"}} {
		err := s.upgrade(t, write(t, filepath.Join(s.dir, "older"), older))
		var refused *upgrade.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err,
			"Landfall "+older.Version+" supports data version 1, and "+s.data()+" has version 2")
		require.ErrorContains(t, err, "landfall restore "+s.data()+"/backups/before-version-2.backup")
	}
	s.requireInstalled(t, "1.1", "")
	require.Empty(t, s.restarts)
	require.NoDirExists(t, filepath.Join(s.data(), "backups"))
}

func TestRollback(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	installation := s.installation(clockwork.NewFakeClock())
	require.ErrorContains(t, installation.Rollback(t.Context()), "there is no former program")
	require.NoError(t, s.upgrade(t, write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1})))
	require.NoError(t, installation.Rollback(t.Context()))
	s.requireInstalled(t, "1.0", "1.1")
	require.NoError(t, installation.Rollback(t.Context()), "and forward again")
	s.requireInstalled(t, "1.1", "1.0")
	require.Equal(t, []string{"1.1", "1.0", "1.1"}, s.restarts)

	require.NoError(t, s.upgrade(t, write(t, filepath.Join(s.dir, "next"),
		trailer{Version: "1.2", Data: 2, Migrates: true})))
	var refused *upgrade.RefusedError
	require.ErrorAs(t, installation.Rollback(t.Context()), &refused)
	s.requireInstalled(t, "1.2", "1.1")
}

func TestUpgrade_withoutServiceManagerSaysTheCommand(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	installation := s.installation(clockwork.NewFakeClock())
	installation.Restart, installation.Flags = nil, " --config site.yaml"
	next := write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1})
	require.NoError(t, installation.Upgrade(t.Context(), next, upgrade.Proof{}))
	s.requireInstalled(t, "1.1", "1.0")
	require.Contains(t, s.out.String(), "Restart the appliance to use it: kill 1; then landfall serve")
	require.Contains(t, s.out.String(), "To go back: landfall upgrade --rollback --config site.yaml\n")
}

func TestUpgrade_oldProgramThatIsAnsweringIsNoticed(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	clock := clockwork.NewFakeClock()
	installation := s.installation(clock)
	restarts := 0
	installation.Restart = func(context.Context) error { restarts++; return nil } // the old process stays
	installation.Ready = func(context.Context) error {
		if restarts == 1 {
			clock.Advance(time.Minute)
		}
		return nil
	}
	next := write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1})
	require.ErrorContains(t, installation.Upgrade(t.Context(), next, upgrade.Proof{}),
		"the appliance still runs version 1.0")
	s.requireInstalled(t, "1.0", "1.1")
}

func TestUpgrade_failedBackupChangesNothing(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	installation := s.installation(clockwork.NewFakeClock())
	installation.Backup = func(context.Context, string) error { return errors.New("no space left on device") }
	owner := ownertest.Give(t, s.data())
	next := write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1})
	require.EqualError(t, installation.Upgrade(t.Context(), next, upgrade.Proof{}),
		"the backup before the upgrade failed: no space left on device; or upgrade without it (--no-backup)")
	s.requireInstalled(t, "1.0", "")
	ownertest.Require(t, filepath.Join(s.data(), dataversion.BackupDir), owner)
}

func TestUpgrade_refusedFiles(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	content, err := program()
	require.NoError(t, err)
	other := bytes.Clone(content)
	other[18] = 243 // RISC-V
	file := func(name string, content []byte, mode os.FileMode) string {
		path := filepath.Join(s.dir, name)
		require.NoError(t, os.WriteFile(path, content, mode))
		return path
	}
	for name, c := range map[string]struct{ path, text string }{
		"missing":          {filepath.Join(s.dir, "none"), "no such file"},
		"directory":        {s.dir, "is no regular file"},
		"text":             {file("text", []byte("hello"), 0o700), "is no program"},
		"empty":            {file("empty", nil, 0o700), "is no program"},
		"other platform":   {file("other", other, 0o700), "this machine needs one for " + runtime.GOOS},
		"other program":    {file("own", content, 0o700), "is not Landfall"},
		"cut off":          {file("cut", content[:4096], 0o700), "is not Landfall"},
		"nothing runnable": {file("header", content[:64], 0o700), "is not Landfall"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, s.upgrade(t, c.path), c.text) })
	}
	s.requireInstalled(t, "1.0", "")
	require.Empty(t, s.restarts)
}

// A person who can change the file, or the way to its source, must not have a program run.
func TestUpgrade_runsOnlyACopyThatPassesTheProof(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	installation := s.installation(clockwork.NewFakeClock())
	content, err := program()
	require.NoError(t, err)
	forged := filepath.Join(s.dir, "forged")
	require.NoError(t, os.WriteFile(forged, content, 0o700))
	require.ErrorContains(t, installation.Upgrade(t.Context(), forged, upgrade.Proof{}), "is not Landfall", "it is run")
	require.ErrorContains(t, installation.Upgrade(t.Context(), forged, upgrade.Proof{SHA256: strings.Repeat("1", 64)}),
		"copy it again", "it is not run")
	require.NoFileExists(t, s.program()+".new")

	next := write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1})
	require.NoError(t, os.Chmod(next, 0o400))
	require.NoError(t, s.upgrade(t, next), "only the copy is run")
	s.requireInstalled(t, "1.1", "1.0")
	require.NoFileExists(t, s.program()+".new")
}

func TestUpgrade_fileWithTheNameOfTheCopyStays(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	next := write(t, s.program()+".new", trailer{Version: "1.1", Data: 1})
	require.ErrorContains(t, s.upgrade(t, next), "give it another name")
	require.Equal(t, "1.1", trailerOf(next).Version)
	s.requireInstalled(t, "1.0", "")
}

func TestPlatform(t *testing.T) {
	elf := func(machine byte) []byte {
		return append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00"), machine, 0)
	}
	require.Equal(t, "linux/amd64", upgrade.Platform(elf(62)))
	require.Equal(t, "linux/arm64", upgrade.Platform(elf(183)))
	require.Equal(t, "another machine (ELF 243)", upgrade.Platform(elf(243)))
	require.Equal(t, "darwin/arm64", upgrade.Platform([]byte("\xcf\xfa\xed\xfe\x0c\x00\x00\x01............")))
	require.Empty(t, upgrade.Platform([]byte("#!/bin/sh\nexec landfall")))
}

func TestProof(t *testing.T) {
	dir := t.TempDir()
	program, err := upgrade.Inspect(t.Context(),
		write(t, filepath.Join(dir, "landfall"), trailer{Version: "1.1", Data: 1}))
	require.NoError(t, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	key := file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))
	text := []byte(program.SHA256 + "  landfall-linux-amd64\n" + strings.Repeat("0", 64) + "  other\n")
	sums := file("SHA256SUMS", text)
	file("SHA256SUMS.sig", ed25519.Sign(private, text))
	unsigned := file("unsigned", text)
	changed := file("changed", append(text, '\n'))
	file("changed.sig", ed25519.Sign(private, text))
	others := file("others", []byte(strings.Repeat("0", 64)+"  other\n"))
	wrong := file("wrong", []byte(strings.Repeat("0", 64)+"  landfall\n"))
	for name, c := range map[string]struct {
		proof upgrade.Proof
		text  string // of the error
	}{
		"nothing":              {},
		"right sum":            {proof: upgrade.Proof{SHA256: strings.ToUpper(program.SHA256)}},
		"wrong sum":            {upgrade.Proof{SHA256: strings.Repeat("1", 64)}, "copy it again"},
		"sums":                 {proof: upgrade.Proof{Sums: sums}},
		"signed sums":          {proof: upgrade.Proof{Sums: sums, Key: key}},
		"unsigned sums":        {upgrade.Proof{Sums: unsigned, Key: key}, "read the signature"},
		"changed after signed": {upgrade.Proof{Sums: changed, Key: key}, "do not use the program"},
		"sums of others":       {upgrade.Proof{Sums: others}, "has no line with the SHA-256"},
		"another sum":          {upgrade.Proof{Sums: wrong}, "differs from its SHA-256"},
		"key without sums":     {upgrade.Proof{Key: key}, "name the file too"},
		"no key":               {upgrade.Proof{Sums: sums, Key: sums}, "no public Ed25519 key"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.proof.Check(program); c.text != "" {
				require.ErrorContains(t, err, c.text)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestUpgrade_interruptedAtEachStep ends an upgrade after each step. The installed program is
// complete at any moment, and the next upgrade succeeds.
func TestUpgrade_interruptedAtEachStep(t *testing.T) {
	errInterrupted := errors.New("interrupted")
	for _, failing := range []string{"backed up", "copied", "kept", "installed"} {
		t.Run(failing, func(t *testing.T) {
			s := newSite(t, trailer{Version: "1.0", Data: 1})
			next := write(t, filepath.Join(s.dir, "next"), trailer{Version: "1.1", Data: 1})
			installation := s.installation(clockwork.NewFakeClock())
			installation.Observe(func(step string) error {
				if step == failing {
					return errInterrupted
				}
				return nil
			})
			require.ErrorIs(t, installation.Upgrade(t.Context(), next, upgrade.Proof{}), errInterrupted)
			require.Contains(t, []string{"1.0", "1.1"}, trailerOf(s.program()).Version)
			require.NoError(t, s.upgrade(t, write(t, filepath.Join(s.dir, "third"), trailer{Version: "1.2", Data: 1})))
			require.Equal(t, "1.2", trailerOf(s.program()).Version)
			require.NoError(t, s.installation(clockwork.NewFakeClock()).Rollback(t.Context()))
		})
	}
}

// TestUpgrade_survivesKills kills processes at random times of an upgrade.
func TestUpgrade_survivesKills(t *testing.T) {
	s := newSite(t, trailer{Version: "1.0", Data: 1})
	files := []string{write(t, filepath.Join(s.dir, "a"), trailer{Version: "1.1", Data: 1}),
		write(t, filepath.Join(s.dir, "b"), trailer{Version: "1.2", Data: 1})}
	own, err := os.Executable()
	require.NoError(t, err)
	run := func(file string, limit time.Duration) (killed bool, took time.Duration) {
		cmd := exec.Command(own)
		cmd.Env = append(os.Environ(), childEnv+"="+s.dir+"\n"+file)
		cmd.Stderr = os.Stderr
		output, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(output).ReadString('\n')
		require.NoError(t, err, "the process did not begin")
		begun := time.Now()
		timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() }) // it may have ended
		err = cmd.Wait()
		timer.Stop()
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, err == nil || ok && exit.ExitCode() == -1, "%v", err)
		return err != nil, time.Since(begun)
	}
	killed, whole := run(files[0], time.Minute)
	require.False(t, killed)
	for count, round := 0, 1; count < *kills; round++ {
		if killed, _ := run(files[round%2], mathrand.N(whole)); killed {
			count++
		}
		program, err := upgrade.Inspect(t.Context(), s.program())
		require.NoError(t, err, "the installed program can't be run after a kill")
		require.Contains(t, []string{"1.1", "1.2"}, program.Version)
	}
	last := write(t, filepath.Join(s.dir, "c"), trailer{Version: "1.3", Data: 1})
	killed, _ = run(last, time.Minute)
	require.False(t, killed)
	s.requireInstalled(t, "1.3", trailerOf(s.program()+upgrade.PreviousSuffix).Version)
}
