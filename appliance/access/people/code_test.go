package people_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/fault"
)

func (s *site) codeFile() string { return filepath.Join(s.dir, people.CodeFile) }

func TestSetUp_makesTheFirstAdministrator(t *testing.T) {
	s := newSite(t)
	require.True(t, s.SetupPending())
	code, err := s.SetupCode()
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){3}$`), code)
	content, err := os.ReadFile(s.codeFile())
	require.NoError(t, err)
	require.Equal(t, code+"\n", string(content))
	info, err := os.Stat(s.codeFile())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	s.restart(s.clock.Now())
	again, err := s.SetupCode()
	require.NoError(t, err)
	require.Equal(t, code, again, "a restart keeps the code")

	_, err = s.Create(t.Context(), people.NewAccount{Name: "ana", Password: password, Role: access.Viewer})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	for _, wrong := range []string{"", "0000-0000-0000-0000", code[1:], code + "0", "ü" + code} {
		_, err = s.SetUp(t.Context(), wrong, "ana", password)
		require.ErrorIs(t, err, people.ErrCode, wrong)
	}
	_, err = s.SetUp(t.Context(), code, "ana", "short")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.True(t, s.SetupPending(), "the code is still valid")

	typed := " " + strings.NewReplacer("0", "o", "1", "l", "-", " ").Replace(strings.ToLower(code)) + "\n"
	account, err := s.SetUp(t.Context(), typed, "Ana", password)
	require.NoError(t, err)
	require.Equal(t, "ana", account.Name)
	require.Equal(t, access.Administrator, account.Role)
	require.False(t, s.SetupPending())
	require.NoFileExists(t, s.codeFile())
	code, err = s.SetupCode()
	require.NoError(t, err)
	require.Empty(t, code)
	_, err = s.SetUp(t.Context(), typed, "bo", password)
	require.ErrorIs(t, err, people.ErrNoCode)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestSetUp_codeIsValidOnce(t *testing.T) {
	s := newSite(t)
	code, err := s.SetupCode()
	require.NoError(t, err)
	var made atomic.Int32
	var group sync.WaitGroup
	for _, name := range []string{"a1", "a2", "a3", "a4"} {
		group.Go(func() {
			if _, err := s.SetUp(context.Background(), code, name, password); err == nil {
				made.Add(1)
			}
		})
	}
	group.Wait()
	require.Equal(t, int32(1), made.Load())
	require.Len(t, s.Accounts(), 1)
}

func TestSetUp_directoryWithSpecialCharacters(t *testing.T) {
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "site [1*?"), clock: clockwork.NewFakeClockAt(time.Now())}
	s.start()
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	s.setUp()
}

// The states in which a kill can leave the data directory.
func TestCode_afterAKill(t *testing.T) {
	t.Run("before the file was renamed", func(t *testing.T) {
		s := newSite(t)
		require.NoError(t, os.Rename(s.codeFile(), s.codeFile()+".123"))
		s.restart(s.clock.Now())
		require.NoFileExists(t, s.codeFile()+".123")
		s.setUp()
	})
	t.Run("between the account and the removal of the file", func(t *testing.T) {
		s := newSite(t)
		code, err := os.ReadFile(s.codeFile())
		require.NoError(t, err)
		s.setUp()
		require.NoError(t, os.WriteFile(s.codeFile(), code, 0o600))
		_, err = s.SetUp(t.Context(), string(code), "bo", password)
		require.ErrorIs(t, err, people.ErrNoCode, "the code was used")
		s.restart(s.clock.Now())
		require.NoFileExists(t, s.codeFile())
		_, err = s.SetUp(t.Context(), string(code), "bo", password)
		require.ErrorIs(t, err, people.ErrNoCode)
	})
}

func TestCode_unusableFileIsReplacedAtTheStart(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, string){
		"readable by others": func(t *testing.T, path string) { require.NoError(t, os.Chmod(path, 0o644)) },
		"empty":              func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"cut off":            func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 7)) },
		"missing":            func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"a link": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+"-elsewhere"))
			require.NoError(t, os.Symlink(path+"-elsewhere", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			code, err := s.SetupCode()
			require.NoError(t, err)
			spoil(t, s.codeFile())
			_, err = s.SetUp(t.Context(), code, "ana", password)
			require.Error(t, err)
			require.True(t, s.SetupPending())
			s.restart(s.clock.Now())
			fresh, err := s.SetupCode()
			require.NoError(t, err)
			require.NotEqual(t, code, fresh)
			s.setUp()
		})
	}
}

func TestWriteCode_resetsAnAdministrator(t *testing.T) {
	s := newSite(t)
	s.setUp()
	s.create("ana", access.Viewer)
	disabled := true
	_, err := s.Update(t.Context(), "ana", people.Change{Disabled: &disabled})
	require.NoError(t, err)
	session := s.logIn("admin")

	code, err := people.WriteCode(s.dir, s.clock.Now())
	require.NoError(t, err)
	_, err = s.SetUp(t.Context(), "0000-0000-0000-0000", "admin", "battery staple")
	require.ErrorIs(t, err, people.ErrCode)
	_, err = s.SetUp(t.Context(), code, "admin", "battery staple")
	require.NoError(t, err)
	require.False(t, s.loggedIn(session))
	require.NoFileExists(t, s.codeFile())
	_, err = s.LogIn(t.Context(), "admin", "battery staple")
	require.NoError(t, err)

	code, err = people.WriteCode(s.dir, s.clock.Now())
	require.NoError(t, err)
	ana, err := s.SetUp(t.Context(), code, "ana", "battery staple")
	require.NoError(t, err)
	require.Equal(t, access.Administrator, ana.Role)
	require.False(t, ana.Disabled)

	code, err = people.WriteCode(s.dir, s.clock.Now())
	require.NoError(t, err)
	s.clock.Advance(people.CodeLife + time.Minute)
	_, err = s.SetUp(t.Context(), code, "admin", "battery staple")
	require.ErrorIs(t, err, people.ErrNoCode, "the code is old")
	s.restart(s.clock.Now())
	require.NoFileExists(t, s.codeFile())
}

func TestResetAdministrator_whileTheApplianceIsStopped(t *testing.T) {
	s := newSite(t)
	_, err := s.ResetAdministrator(t.Context(), "ana", password)
	require.NoError(t, err)
	require.NoFileExists(t, s.codeFile())
	_, err = s.ResetAdministrator(t.Context(), "ana", "battery staple")
	require.NoError(t, err)
	_, err = s.LogIn(t.Context(), "ana", "battery staple")
	require.NoError(t, err)
}
