package people

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"landfall/appliance/access"
	"landfall/appliance/durable"
	"landfall/appliance/fault"
	"landfall/appliance/process"
)

// CodeFile is the name of the setup code's file in the data directory. Only the owner of the
// directory can read it.
//
// The file exists until there is an account. Its code makes the first administrator. Later, a
// person who may write the data directory can write a new code with [WriteCode]. It is valid for
// CodeLife, and resets the password of an administrator.
const CodeFile = "setup-code"

// CodeLife is the time for which a code is valid that was written after the first account.
const CodeLife = 15 * time.Minute

// A code has 80 random bits in groups, for example 7QF4-M0XD-9RTA-WZHC. The alphabet is Crockford's
// base 32, which has no letters that look like digits.
const (
	codeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	codeGroups   = 4
	groupLength  = 4
	largestFile  = 256 // bytes
)

var (
	// ErrCode is returned for a wrong setup code.
	ErrCode = fault.Sentinel(fault.Forbidden,
		"the setup code is wrong; it is in the file "+CodeFile+" of the data directory")
	// ErrNoCode is returned if there is no valid setup code.
	ErrNoCode = fault.Sentinel(fault.NotFound,
		"there is no setup code: log in with an account, or run landfall user reset on the appliance's machine")
)

// SetupPending reports whether there is no account yet.
func (p *People) SetupPending() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.accounts) == 0
}

// SetupCode returns the code that makes the first administrator. It returns "" if there is an
// account.
func (p *People) SetupCode() (string, error) {
	if !p.SetupPending() {
		return "", nil
	}
	code, _, err := readCode(p.options.Dir)
	return code, err
}

// prepareCode makes the file of the setup code exist if and only if there is no account. The
// process may be killed at any moment: the first account is stored before the file is removed.
func (p *People) prepareCode() error {
	entries, err := os.ReadDir(p.options.Dir)
	if err != nil {
		return fmt.Errorf("look for an incomplete setup code: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), CodeFile+".") {
			continue
		}
		err := os.Remove(filepath.Join(p.options.Dir, entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an incomplete setup code: %w", err)
		}
	}
	if !p.SetupPending() {
		return RemoveCode(p.options.Dir)
	}
	if _, _, err := readCode(p.options.Dir); err == nil {
		return nil
	}
	_, err = WriteCode(p.options.Dir, p.options.Clock.Now())
	return err
}

// SetUp makes an administrator with the setup code. If the account exists, SetUp resets it: it gets
// the password and the role of an administrator, is enabled, and loses its passkeys and sessions.
// The code is valid once. The errors are ErrCode, ErrNoCode, and those of Create.
func (p *People) SetUp(ctx context.Context, code, name, password string) (Account, error) {
	if err := p.checkCode(code); err != nil {
		return Account{}, err
	}
	return p.makeAdministrator(ctx, name, password, func() error { return p.checkCode(code) })
}

// ResetAdministrator makes or resets an administrator like SetUp, without a code. The caller must
// have opened the data directory, so the appliance does not run.
func (p *People) ResetAdministrator(ctx context.Context, name, password string) (Account, error) {
	return p.makeAdministrator(ctx, name, password, func() error { return nil })
}

func (p *People) makeAdministrator(ctx context.Context, name, password string, allowed func() error) (Account, error) {
	name, err := access.ParseName(name)
	if err != nil {
		return Account{}, err
	}
	if err := checkPassword(name, password); err != nil {
		return Account{}, err
	}
	hashed, err := p.hasher.hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	p.changes.Lock()
	defer p.changes.Unlock()
	if err := allowed(); err != nil { // another client may have used the code
		return Account{}, err
	}
	changed := p.newAccount(name, access.Administrator, access.Scope{})
	if held, err := p.find(name); err == nil {
		if held.External != nil {
			return Account{}, fault.New(fault.Conflict,
				"the account %q has no password here; choose another name", name)
		}
		*changed = *held
		changed.Role, changed.Scope, changed.Disabled = access.Administrator, access.Scope{}, false
		changed.Passkeys = nil
		changed.Generation++
	}
	changed.Password = hashed
	if err := p.save(ctx, changed); err != nil {
		return Account{}, err
	}
	p.consumeCode()
	return changed.public(), nil
}

// checkCode compares a code with the file.
func (p *People) checkCode(code string) error {
	want, writtenAt, err := readCode(p.options.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoCode
	case err != nil:
		return err
	}
	sum := digestOf(want)
	p.mu.RLock()
	used := p.used == sum
	p.mu.RUnlock()
	if used {
		return ErrNoCode
	}
	if !p.SetupPending() && p.options.Clock.Now().Sub(writtenAt).Abs() > CodeLife {
		return ErrNoCode
	}
	given := digestOf(normalize(code))
	if subtle.ConstantTimeCompare(sum[:], given[:]) != 1 {
		return ErrCode
	}
	return nil
}

// consumeCode makes the present code invalid and removes its file.
func (p *People) consumeCode() {
	if code, _, err := readCode(p.options.Dir); err == nil {
		p.mu.Lock()
		p.used = digestOf(code)
		p.mu.Unlock()
	}
	if err := RemoveCode(p.options.Dir); err != nil {
		p.options.Logger.Warn("The file of the used setup code could not be removed. The code is not valid any more.",
			"error", err)
	}
}

// readCode returns the normalized code in the file and the time when it was written. The error is
// fs.ErrNotExist if there is no file.
func readCode(dir string) (code string, writtenAt time.Time, err error) {
	file, err := os.OpenFile(filepath.Join(dir, CodeFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the setup code: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the setup code: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", time.Time{}, fault.New(fault.Conflict,
			"the setup code is not valid, because others may have read its file; "+
				"restart the appliance to get a new one")
	}
	text, err := io.ReadAll(io.LimitReader(file, largestFile))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the setup code: %w", err)
	}
	code = normalize(string(text))
	if code == "" {
		return "", time.Time{}, fault.New(fault.Conflict,
			"the file "+CodeFile+" holds no setup code; restart the appliance to get a new one")
	}
	return code, info.ModTime(), nil
}

// WriteCode writes a new setup code into the data directory and returns it. now is the time of the
// file. The file is either complete or missing after a crash. If the appliance runs as another user
// than the caller, the file belongs to the owner of the directory.
func WriteCode(dir string, now time.Time) (code string, err error) {
	code = newCode()
	file, err := os.CreateTemp(dir, CodeFile+".*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("write the setup code: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the setup code: %w", err)
			if rest := os.Remove(file.Name()); !errors.Is(rest, fs.ErrNotExist) {
				err = errors.Join(err, rest)
			}
		}
	}()
	if _, err = file.WriteString(code + "\n"); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if err = process.GiveToOwner(dir, file.Name()); err != nil {
		return "", err
	}
	if err = os.Chtimes(file.Name(), now, now); err != nil {
		return "", err
	}
	if err = os.Rename(file.Name(), filepath.Join(dir, CodeFile)); err != nil {
		return "", err
	}
	return code, durable.SyncDir(dir)
}

// RemoveCode removes the file of the setup code. A missing file is not an error.
func RemoveCode(dir string) error {
	if err := os.Remove(filepath.Join(dir, CodeFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the setup code: %w", err)
	}
	return nil
}

func newCode() string {
	var code strings.Builder
	for i, b := range random(codeGroups * groupLength) {
		if i > 0 && i%groupLength == 0 {
			code.WriteByte('-')
		}
		code.WriteByte(codeAlphabet[b%byte(len(codeAlphabet))]) // 32 divides 256
	}
	return code.String()
}

// normalize returns the form of a code in the file, from a form in which a person may enter it.
func normalize(code string) string {
	var digits []byte
	for _, char := range strings.ToUpper(code) {
		switch char {
		case 'O':
			char = '0'
		case 'I', 'L':
			char = '1'
		}
		if char < 0x80 && strings.ContainsRune(codeAlphabet, char) {
			digits = append(digits, byte(char))
		} else if char != '-' && char > ' ' {
			return ""
		}
	}
	if len(digits) != codeGroups*groupLength {
		return ""
	}
	var groups []string
	for len(digits) > 0 {
		groups = append(groups, string(digits[:groupLength]))
		digits = digits[groupLength:]
	}
	return strings.Join(groups, "-")
}
