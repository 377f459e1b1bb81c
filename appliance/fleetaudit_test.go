//go:build etcd

package appliance_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/outcome"
	"landfall/appliance/fleet/etcdtest"
)

// outcomeOf runs a command against the machine, and returns its exit code and its outputs.
func (m *fleetMachine) outcomeOf(t *testing.T, arguments ...string) (code int, out, errOut string) {
	t.Helper()
	var written, said strings.Builder
	cmd := m.command(append(arguments, "--url", m.address)...)
	cmd.Stdout, cmd.Stderr = &written, &said
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return cmd.ProcessState.ExitCode(), written.String(), said.String()
}

// kill ends the process of the machine without any warning.
func (m *fleetMachine) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, m.process.Process.Kill())
	require.Error(t, m.process.Wait())
	m.process = nil
}

// changers returns the members that have recorded an operation, the newest record first, as
// landfall audit shows it.
func (m *fleetMachine) changers(t *testing.T, arguments ...string) (members []string) {
	t.Helper()
	code, out, errOut := m.outcomeOf(t, append([]string{"audit", "-o", "json", "--operation", "issueAMSToken"},
		arguments...)...)
	require.Zero(t, code, errOut)
	var records []struct{ Member string }
	require.NoError(t, json.Unmarshal([]byte(out), &records))
	for _, record := range records {
		members = append(members, record.Member)
	}
	return members
}

// follow runs landfall audit --follow until the test ends, and returns the file with its output.
func (m *fleetMachine) follow(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "followed")
	out, err := os.Create(file)
	require.NoError(t, err)
	cmd := m.command("audit", "--follow", "--json", "--url", m.address)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait())
		require.NoError(t, out.Close())
	})
	return file
}

// hasNoLeader reports whether the machine refuses changes, because no member leads.
func (m *fleetMachine) hasNoLeader(t *testing.T) bool {
	t.Helper()
	code, _, errOut := m.outcomeOf(t, "ams", "token")
	return code != 0 && strings.Contains(errOut, "no leader now")
}

// awaitRecord waits until a file has a record of a change by a leader.
func awaitRecord(t *testing.T, file, leader string) {
	t.Helper()
	soon(t, "the record of "+leader+" is in "+file, func() bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.HasPrefix(line, `{"member":"`+leader+`"`) && strings.Contains(line, "issueAMSToken")
		})
	})
}

// TestFleetAudit changes something under one leader and under the next one. One command then shows
// and verifies both trails.
func TestFleetAudit(t *testing.T) {
	t.Parallel()
	s := &fleetSite{site: newSite(t), etcd: etcdtest.Start(t, etcdtest.Options{}),
		program: buildVersion(t, filepath.Join(t.TempDir(), "landfall"), "audit-1")}
	s.config.TLS.Enabled = true
	one, two := s.machine(t, "one"), s.machine(t, "two")
	one.start(t)
	alone, out, _ := one.outcomeOf(t, "audit", "--member", "one")
	require.Equal(t, outcome.Failure, alone, out)
	one.run(t, "fleet", "init", "--etcd", s.etcd.URL(), "--name", "one")
	one.awaitReady(t)
	two.join(t, one)
	followed := two.follow(t)
	change := func(through *fleetMachine) { through.run(t, "ams", "token") }
	soon(t, "the command follows the trails", func() bool {
		change(two)
		text, err := os.ReadFile(followed)
		require.NoError(t, err)
		return len(text) > 0
	})
	awaitRecord(t, followed, "one")
	before := len(two.changers(t))
	require.Positive(t, before)
	require.Equal(t, slices.Repeat([]string{"one"}, before), two.changers(t), "through a member that does not lead")

	one.kill(t)
	change(two)
	awaitRecord(t, followed, "two")
	code, out, errOut := two.outcomeOf(t, "audit")
	require.Zero(t, code)
	require.Contains(t, out, "two ")
	require.Contains(t, errOut, "The records of these members are not shown: one.")
	require.Equal(t, 1, strings.Count(errOut, "\n"))
	code, out, _ = two.outcomeOf(t, "audit", "verify")
	require.Equal(t, outcome.Attention, code, "the other member can't be verified")
	require.Contains(t, out, "member one\nnot verified: the audit trail of the member one can't be read now")
	code, _, errOut = two.outcomeOf(t, "audit", "--member", "one")
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, errOut, "it is on the machine with the URL https://")

	one.start(t)
	both := append([]string{"two"}, slices.Repeat([]string{"one"}, before)...)
	for _, m := range []*fleetMachine{one, two} {
		soon(t, "all members are there", func() bool { return len(m.changers(t)) == len(both) })
		require.Equal(t, both, m.changers(t))
		require.Equal(t, both[:2], m.changers(t, "--limit", "2"))
		require.Equal(t, both[1:], m.changers(t, "--member", "one"))
		require.Contains(t, m.run(t, "audit", "verify"), "member two\n")
		code, _, errOut = m.outcomeOf(t, "audit", "--member", "nobody")
		require.Equal(t, outcome.Failure, code)
		require.Contains(t, errOut, "its members are one, two")
	}
	_, head, _ := strings.Cut(two.run(t, "audit", "verify", "--member", "one"), "head ")
	head = strings.TrimSpace(head)
	two.run(t, "audit", "verify", "--member", "one", "--head", head)
	code, _, errOut = two.outcomeOf(t, "audit", "verify", "--head", head)
	require.Equal(t, outcome.Usage, code)
	require.Contains(t, errOut, "a head is that of one trail; name the member with --member: one, two")
	exported := filepath.Join(t.TempDir(), "one.jsonl")
	require.Contains(t, two.run(t, "audit", "export", "-o", exported), "For those of others, use --member: one")
	two.run(t, "audit", "export", "--member", "one", "-o", exported)
	content, err := os.ReadFile(exported)
	require.NoError(t, err)
	report, err := audittrail.VerifyExport(bytes.NewReader(content), audittrail.Expect{})
	require.NoError(t, err)
	require.Empty(t, report.Problems)

	require.NoError(t, s.etcd.Stop())
	for _, m := range []*fleetMachine{one, two} {
		soon(t, "it shows the trails without a leader", func() bool {
			code, out, _ := m.outcomeOf(t, "audit", "--operation", "issueAMSToken", "-o", "name")
			return code == 0 && strings.Count(out, "\n") == len(both) && m.hasNoLeader(t)
		})
	}
	one.kill(t)
	code, out, errOut = two.outcomeOf(t, "audit", "--operation", "issueAMSToken")
	require.Zero(t, code, errOut)
	require.Equal(t, 2, strings.Count(out, "\n"), "%s: the heading and its own record", out)
	require.Contains(t, errOut, "The records of these members are not shown: one.")
	require.NoError(t, s.etcd.Continue())
	one.start(t)
	soon(t, "a member leads again", func() bool { return !two.hasNoLeader(t) })

	alter(t, filepath.Join(one.dir, audittrail.DirName))
	code, out, errOut = two.outcomeOf(t, "audit", "verify")
	require.Equal(t, outcome.Failure, code)
	require.Contains(t, out, "member one\nproblem: ")
	require.Contains(t, out, "member two\nsigned with ")
	require.Contains(t, errOut, "was altered or shortened on these members: one")

	one.kill(t)
	soon(t, "the other member leads", func() bool { return !two.hasNoLeader(t) })
	two.run(t, "fleet", "end", "--yes")
	two.awaitReady(t)
	require.Contains(t, two.run(t, "audit", "verify"), "signed with ")
	two.stop(t)
	two.start(t)
	require.Contains(t, two.run(t, "audit", "verify"), "signed with ")
}

// alter changes one byte of a record of a change in the files of a trail.
func alter(t *testing.T, dir string) {
	t.Helper()
	for _, path := range files(t, dir) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if at := bytes.Index(content, []byte("issueAMSToken")); at >= 0 {
			content[at]++
			require.NoError(t, os.WriteFile(path, content, 0o600))
			return
		}
	}
	t.Fatal("no file of the trail has the record")
}
