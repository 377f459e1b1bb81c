// Package backup has the commands that back up a running appliance and restore a backup.
package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall/appliance/backup"
	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/keyring"
	"landfall/appliance/replica"
	"landfall/appliance/sentence"
	"landfall/web/console"
)

// Commands returns the commands.
func Commands() []*cobra.Command { return []*cobra.Command{newBackup(), newRestore()} }

type saving struct {
	appliance  remote.Client
	to         string
	recipients []string
	passphrase string // file
	withKey    bool
	keep       int
}

func newBackup() *cobra.Command {
	s := new(saving)
	cmd := &cobra.Command{
		Use:   "backup -o FILE|DIR|-",
		Short: "Back up a running appliance",
		Long: "Write a backup of a running appliance to a file, to a directory, or to the standard output. The " +
			"backup has the\nstate of one moment; the appliance goes on meanwhile. What was written is read back and " +
			"compared.\n\nA directory keeps many backups, and each content once, so that a backup of an appliance " +
			"with few changes is small.\n\nThe data stays sealed as in the data directory. Without --recipient and " +
			"--passphrase-file, the backup does not\ncontain the key of the seal: keep seal.key, or what seals the " +
			"data key, at another place, or give --include-key.\nAn encrypted backup contains the key, so it can be " +
			"restored on any machine.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.appliance.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVarP(&s.to, "output", "o", "", "file, directory (existing, or with a slash at the end), or - for the "+
		"standard output")
	flags.StringSliceVar(&s.recipients, "recipient", nil, "public key of age (age1...) that can open the backup")
	flags.StringVar(&s.passphrase, "passphrase-file", "", "file with a passphrase that opens the backup")
	flags.BoolVar(&s.withKey, "include-key", false, "include the key of the seal in a backup that is not encrypted")
	flags.IntVar(&s.keep, "keep", 0, "keep only this number of backups in the directory; 0 for all")
	return cmd
}

// recipients returns those who can open a backup.
func (s *saving) parsed() (all []age.Recipient, err error) {
	for _, text := range s.recipients {
		recipient, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, outcome.Usagef("--recipient %s is no public key of age, which begins with age1", text)
		}
		all = append(all, recipient)
	}
	if s.passphrase == "" {
		return all, nil
	}
	if len(all) > 0 {
		return nil, outcome.Usagef("--recipient and --passphrase-file exclude each other")
	}
	phrase, err := readPhrase(s.passphrase)
	if err != nil {
		return nil, err
	}
	recipient, err := age.NewScryptRecipient(phrase)
	return append(all, recipient), err
}

func readPhrase(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	phrase := strings.TrimRight(string(text), "\r\n")
	if phrase == "" {
		return "", fmt.Errorf("the file %s contains no passphrase", path)
	}
	return phrase, nil
}

func (s *saving) run(ctx context.Context, out, errOut io.Writer) error {
	if s.to == "" {
		return outcome.Usagef("-o is missing: name a file, a directory, or - for the standard output")
	}
	if s.keep < 0 {
		return outcome.Usagef("--keep is %d; expected the number of backups that stay, or 0 for all", s.keep)
	}
	recipients, err := s.parsed()
	if err != nil {
		return err
	}
	path := console.BackupRoute
	if s.withKey || len(recipients) > 0 {
		path += "?key=true"
	}
	response, err := s.appliance.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return s.appliance.Refusal(http.MethodGet, path, response, answer)
	}
	stream, end := output.Metered(errOut, "backup", response.Body, 0)
	defer end()
	if s.to == "-" {
		_, err := backup.WriteTo(out, stream, recipients...)
		return err
	}
	if info, err := os.Stat(s.to); err == nil && info.IsDir() || strings.HasSuffix(s.to, "/") {
		clock, err := http.ParseTime(response.Header.Get("Date"))
		if err != nil {
			return fmt.Errorf("read the time of the appliance: %w", err)
		}
		return s.toDirectory(out, stream, end, recipients, clock)
	}
	manifest, err := backup.WriteFile(s.to, stream, recipients...)
	end()
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // of a temporary file beside it
		return fmt.Errorf("write the backup %s: %w; choose another place with -o", s.to, failed.Err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The backup is complete and was read back: %s, revision %d, %d bytes of data.\n", s.to,
		manifest.Revision, manifest.Bytes())
	return keyNotice(out, manifest)
}

// toDirectory writes a backup to a directory. The clock of the appliance dates the backups.
func (s *saving) toDirectory(out io.Writer, stream io.Reader, end func(), recipients []age.Recipient,
	clock time.Time) error {
	repository := &backup.Repository{Dir: strings.TrimRight(s.to, "/"), Recipients: recipients}
	// Old backups are removed first, because there may be no space otherwise. A damaged one does
	// not prevent the new one; the removal afterwards reports it.
	surplus, _ := repository.Prune(s.keep, clock)
	received, err := repository.Receive(stream)
	end()
	if medium, ok := errors.AsType[*backup.MediumError](err); ok && medium.Full() && s.keep == 0 {
		return fmt.Errorf("%w; --keep N removes all but the newest N backups before it writes", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The backup %s is complete and was read back: revision %d, %d bytes new, %d bytes from earlier "+
		"backups.\n", received.Name, received.Revision, received.Added, received.Kept)
	removed, err := repository.Prune(s.keep, received.Time)
	if err != nil {
		return err
	}
	if removed += surplus; removed > 0 {
		fmt.Fprintf(out, "%d older backups were removed.\n", removed)
	}
	return keyNotice(out, received.Manifest)
}

// keyNotice says what is needed to restore a backup without its key.
func keyNotice(out io.Writer, m *backup.Manifest) error {
	if m.Key {
		return nil
	}
	need := map[string]string{
		"file":       "the file seal.key of this appliance; keep a copy of it at another place",
		"passphrase": "the passphrase of the data key",
		"credential": "the credential of systemd with which the data key is sealed",
		"tpm": "the TPM of this machine: on another machine it can't be restored; encrypt it with --recipient or " +
			"--passphrase-file instead",
	}[m.SealedWith]
	_, err := fmt.Fprintf(out, "It does not contain the key of the seal. A restore needs %s.\n", need)
	return err
}

type restoring struct {
	dir, name string
	at        string
	opening   Opening
	dryRun    bool
	compare   string // data directory or URL
	ca        string
	action    *action.Action // its questions only
	there     *backup.Objects
	format    output.Format
}

func newRestore() *cobra.Command {
	r := &restoring{action: action.New()}
	cmd := &cobra.Command{
		Use:   "restore FILE|DIR --data-dir DIR",
		Short: "Restore a backup or a replica into a new data directory",
		Long: "Restore a backup into a new data directory, for the next start of an appliance. First the command " +
			"says what the\nbackup contains and what may be different in reality. It does not overwrite anything.\n\n" +
			"DIR may also be a replica: --at selects the time of the state. landfall promote also replaces the " +
			"appliance that\nwrites to the replica.\n\n" +
			"After a restore, the appliance sends nothing to AMS about clusters that AMS may know better until a " +
			"person decides.\n\n--compare reads reality: the data directory of the lost appliance, which may be " +
			"damaged and is not changed, or a running\nappliance. The command says what is newer there, only there " +
			"or only in the backup, and asks before it goes on.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error { return r.run(cmd, arguments[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.dir, "data-dir", "", "new data directory")
	flags.StringVar(&r.name, "backup", "", "name of a backup in a directory; default: the newest up to now")
	flags.StringVar(&r.at, "at", "", "time of the state of a replica, such as 2026-03-01T12:00:00Z; "+
		"default: the newest")
	r.opening.AddFlags(flags)
	r.opening.AddKeyFlag(flags)
	flags.BoolVar(&r.dryRun, "dry-run", false, "only say what the backup contains, and check it completely")
	flags.StringVar(&r.compare, "compare", "", "data directory or URL of an appliance with which the backup is "+
		"compared")
	flags.StringVar(&r.ca, "ca", "", "file with the certificate authority of the appliance of --compare; default: "+
		"LANDFALL_CA, or the authority that landfall login stored")
	flags.BoolVarP(&r.action.Yes, "yes", "y", false, "do not ask although something differs")
	r.format.AddFlag(cmd)
	r.format.AddFormerFlag(cmd)
	return cmd
}

var errDryRun = errors.New("dry run")

func (r *restoring) run(cmd *cobra.Command, from string) error {
	ctx, out, errOut := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if r.dir == "" {
		return outcome.Usagef("--data-dir is missing: name the new data directory")
	}
	identities, err := r.opening.Identities()
	if err != nil {
		return err
	}
	at, err := ParseTime(r.at)
	if err != nil {
		return err
	}
	if strings.Contains(r.compare, "://") {
		r.there = new(backup.Objects)
		if err := remote.New(r.compare, r.ca).Call(ctx, http.MethodGet, console.BackupObjectsRoute, nil,
			r.there); err != nil {
			return fmt.Errorf("read the objects of %s: %w", r.compare, err)
		}
	}
	meter := output.NewMeter(errOut, "restore", 0)
	defer meter.End()
	target := backup.Target{Dir: r.dir, Now: time.Now, Progress: meter,
		Describe: func(m *backup.Manifest, dir string) error {
			meter.End()
			content, err := r.describe(ctx, out, m, dir)
			switch {
			case err != nil:
				return err
			case r.dryRun:
				return errDryRun
			case content.Comparison != nil && len(content.Comparison.Differences) > 0:
				return r.action.Confirm(cmd, r.dir, fmt.Sprintf("%d objects differ between the backup and %s.",
					len(content.Comparison.Differences), r.compare))
			}
			return nil
		}}
	manifest, err := r.restore(ctx, errOut, from, at, identities, target)
	meter.End()
	if errors.Is(err, errDryRun) {
		return nil
	}
	if err != nil {
		return err
	}
	if !r.format.Tabular() {
		return nil
	}
	fmt.Fprintf(out, "The data directory %s is restored.\n", r.dir)
	return StartNotice(out, manifest, r.dir)
}

// StartNotice says how to start a restored data directory, and first what the start needs that is
// not in the backup.
func StartNotice(out io.Writer, m *backup.Manifest, dir string) error {
	need := map[string]string{
		"file": fmt.Sprintf("the key of the seal. Copy seal.key of the former appliance to %s, or name the file with "+
			"--seal-key-file", filepath.Join(dir, "seal.key")),
		"passphrase": "the passphrase of the data key",
		"credential": "the credential of systemd with which the data key is sealed",
		"tpm":        "the TPM of the former appliance's machine",
	}[m.SealedWith]
	if !m.Key {
		fmt.Fprintf(out, "Its start needs %s.\n", need)
	}
	_, err := fmt.Fprintf(out, "Start it with landfall serve --data-dir %s.\n", dir)
	return err
}

func (r *restoring) restore(ctx context.Context, errOut io.Writer, from string, at time.Time,
	identities []age.Identity, target backup.Target) (*backup.Manifest, error) {
	if replica.IsReplica(from) {
		if r.name != "" {
			return nil, outcome.Usagef("%s is a replica: give --at in place of --backup", from)
		}
		return replica.Reader{Directory: replica.Directory{Path: from}, Identities: identities}.Restore(ctx, at, target)
	}
	if r.at != "" {
		return nil, outcome.Usagef("--at is for replicas, and %s is none", from)
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	if info.IsDir() {
		return r.fromDirectory(ctx, errOut, from, identities, target)
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	defer file.Close()
	stream, err := backup.Decrypt(file, identities...)
	if err != nil {
		return nil, err
	}
	return target.Restore(ctx, stream)
}

// fromDirectory restores the newest backup of a directory, or that of the flag --backup. A backup
// with a time in the future is from a clock that was wrong; otherwise the clock is wrong now.
func (r *restoring) fromDirectory(ctx context.Context, errOut io.Writer, from string, identities []age.Identity,
	target backup.Target) (*backup.Manifest, error) {
	repository := &backup.Repository{Dir: from}
	name := r.name
	if name == "" {
		last, later, err := repository.Last(time.Now())
		if err != nil {
			return nil, err
		}
		if last == "" {
			return nil, fmt.Errorf("the directory %s contains no backup", from)
		}
		if len(later) > 0 {
			fmt.Fprintf(errOut, "The backup %s is the newest one up to now. These have a time in the future and are "+
				"left out: %s. Give one with --backup if the clock of this machine is wrong.\n", last,
				strings.Join(later, ", "))
		}
		name = last
	}
	return repository.Restore(ctx, name, &target, identities...)
}

// ParseTime parses the value of the flag --at. "" is the zero time.
func ParseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, outcome.Usagef("--at %s is no time; expected a time such as 2026-03-01T12:00:00Z", text)
	}
	return at, nil
}

// Opening has the flags that say what opens an encrypted backup or replica.
type Opening struct{ identity, passphrase, sealKey string } // files

// AddFlags adds the flags.
func (o *Opening) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.identity, "identity", "", "file with the secret key of age that decrypts it")
	flags.StringVar(&o.passphrase, "passphrase-file", "", "file with the passphrase that decrypts it")
}

// AddKeyFlag adds the flag for the key of the seal, with which the content can be shown.
func (o *Opening) AddKeyFlag(flags *pflag.FlagSet) {
	flags.StringVar(&o.sealKey, "seal-key-file", "", "copy of the former appliance's seal.key, with which the command "+
		"reads the content; it is not copied; default: LANDFALL_SEAL_KEY_FILE")
}

// Keys returns what opens the data keys.
func (o *Opening) Keys() keyring.Options {
	keys := keyring.FromEnvironment()
	if o.sealKey != "" {
		keys.KeyFile = o.sealKey
	}
	return keys
}

// Identities reads the files. Without flags, there are none.
func (o *Opening) Identities() ([]age.Identity, error) {
	if o.passphrase != "" {
		phrase, err := readPhrase(o.passphrase)
		if err != nil {
			return nil, err
		}
		opens, err := age.NewScryptIdentity(phrase)
		return []age.Identity{opens}, err
	}
	if o.identity == "" {
		return nil, nil
	}
	file, err := os.Open(o.identity)
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	identities, err := age.ParseIdentities(bufio.NewReader(file))
	return identities, errors.Join(err, file.Close())
}

// describe says what the backup contains and what is or may be different in reality.
func (r *restoring) describe(ctx context.Context, out io.Writer, m *backup.Manifest, dir string) (*backup.Content,
	error) {
	describe := backup.DescribeWith
	if r.compare != "" && r.there == nil {
		describe = func(ctx context.Context, m *backup.Manifest, dir string, keys keyring.Options) (*backup.Content,
			error) {
			return backup.DescribeWithKeyOf(ctx, r.compare, m, dir, keys)
		}
	}
	content, err := describe(ctx, m, dir, r.opening.Keys())
	if err != nil {
		return nil, err
	}
	if r.compare != "" {
		if content.Unreadable != "" {
			return nil, fmt.Errorf("the backup can't be compared, because its content can't be read: %s",
				sentence.Clause(content.Unreadable))
		}
		if r.there == nil {
			if r.there, err = readDirectory(ctx, r.compare, dir); err != nil {
				return nil, err
			}
		}
		content.CompareWith(r.there, r.compare)
	}
	if r.format.Tabular() {
		return content, content.Write(out)
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return content, r.format.Value(out, text)
}

// readDirectory lists the objects of a data directory. restored is the directory that is being
// restored; a copy of the database lies beside it for a moment.
func readDirectory(ctx context.Context, dir, restored string) (_ *backup.Objects, err error) {
	scratch, err := os.MkdirTemp(filepath.Dir(restored), ".compare-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	return backup.ReadObjects(ctx, dir, scratch, restored)
}
