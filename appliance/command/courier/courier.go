// Package courier has the commands that carry images to a site.
package courier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	rules "landfall/appliance/command/mirror"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/courier"
	"landfall/appliance/release"
)

// New returns the command. version is that of the program, for the User-Agent.
func New(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "courier",
		Short: "Fetch images on a connected machine and push them into a site's mirror",
	}
	cmd.AddCommand(newFill(version), newPush(version))
	return cmd
}

// registryFlags configure the connection to registries.
type registryFlags struct {
	secret, ca, registriesConf, version string
}

func (f *registryFlags) keychain() (authn.Keychain, error) {
	if f.secret == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.secret)
	if err != nil {
		return nil, fmt.Errorf("read the pull secret: %w", err)
	}
	return mirror.ParsePullSecret(string(text))
}

func (f *registryFlags) client(throughProxy bool) (*mirror.Client, error) {
	rules, err := mirror.Load(mirror.Files{RegistriesConf: f.registriesConf, CABundle: f.ca})
	if err != nil {
		return nil, err
	}
	options := mirror.ClientOptions{UserAgent: "landfall/" + f.version}
	if throughProxy {
		options.Proxy = http.ProxyFromEnvironment
	}
	return mirror.NewClient(rules, options), nil
}

func newFill(version string) *cobra.Command {
	flags := &registryFlags{version: version}
	var dir, part, store string
	format := new(output.Format)
	cmd := &cobra.Command{
		Use:   "fill LIST -o DIR",
		Short: "Fetch the images on a site's list, on a connected machine",
		Long: "Fetch the images on a site's list of missing images into a directory, for example on a USB drive. The " +
			"list is the text list\nof the Mirror page or of landfall mirror prove --list. It is signed, and an " +
			"altered list is rejected. An interrupted run\ncontinues where it stopped. Files stay below 4 GiB.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			size, err := partSize(part)
			if err != nil {
				return err
			}
			if dir == "" {
				return outcome.Usagef("-o is missing; name the directory to fill")
			}
			filled, err := fill(cmd.Context(), flags, arguments[0], courier.FillOptions{Dir: dir, Part: size,
				SignatureStore: store}, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if filled.SignatureProblem != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "landfall: not all signatures of the release could be fetched: %s\n",
					filled.SignatureProblem)
			}
			for _, note := range filled.Notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "landfall: %s\n", note)
			}
			if !format.Tabular() {
				return format.Document(cmd.OutOrStdout(), "directory", dir, filled, nil)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d images, %d layers and configs, %s; fetched now: %s\n",
				dir, filled.Images, filled.Blobs, output.Size(filled.Bytes), output.Size(filled.Fetched))
			return err
		},
	}
	set := cmd.Flags()
	set.StringVarP(&dir, "output", "o", "", "directory to fill")
	set.StringVar(&flags.secret, "pull-secret", "", "file with the pull secret for the source registries")
	set.StringVar(&flags.ca, "ca", "", "additional CA certificates (PEM) of the registries")
	set.StringVar(&flags.registriesConf, "registries-conf", "",
		"registries.conf of this machine, if it pulls from the sources through mirrors")
	set.StringVar(&store, "signature-store", courier.SignatureStore,
		"URL of the OpenPGP signatures of releases; empty for none")
	set.StringVar(&part, "part-size", "", "maximum size of a file, such as 1GiB; default: just below 4 GiB")
	set.BoolFunc("json", "write JSON", func(string) error { return format.Set("json") }) // -o is the directory
	return cmd
}

func fill(ctx context.Context, flags *registryFlags, path string, o courier.FillOptions,
	errOut io.Writer) (_ *courier.Filled, err error) {
	list, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of missing images: %w", err)
	}
	_, key, err := courier.Parse(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(errOut, "landfall: the list is signed by the site with the key %s\n", key.Fingerprint())
	if o.Secret, err = flags.keychain(); err != nil {
		return nil, err
	}
	if o.Client, err = flags.client(true); err != nil {
		return nil, err
	}
	defer o.Client.CloseIdleConnections()
	cache, err := os.MkdirTemp("", "landfall-courier-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	library, err := release.New(release.Options{Mirror: o.Client, CacheDir: cache,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	o.Payloads = library
	bar := output.NewMeter(errOut, "fetching images", 0)
	defer bar.End()
	o.Progress = func(_ string, done, total int, _ int64) { bar.Set(int64(done), int64(total)) }
	return courier.Fill(ctx, list, o)
}

func newPush(version string) *cobra.Command {
	appliance, flags := action.New(), &registryFlags{version: version}
	var o courier.PushOptions
	format := new(output.Format)
	cmd := &cobra.Command{
		Use:   "push DIR --to REGISTRY",
		Short: "Push the fetched images into the site's mirror, at the site",
		Long: "Push the output of landfall courier fill to the locations in the site's mirror rules. Existing " +
			"content is not sent again.\nThe OpenPGP signatures of the release are imported into the running " +
			"appliance; if none is reachable, the command for\nthis is printed. Run landfall mirror prove afterwards " +
			"to see which images have arrived.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) (err error) {
			o.Dir = arguments[0]
			if o.Secret, err = flags.keychain(); err != nil {
				return err
			}
			if o.Client, err = flags.client(false); err != nil {
				return err
			}
			defer o.Client.CloseIdleConnections()
			bar := output.NewMeter(cmd.ErrOrStderr(), "pushing images", 0)
			defer bar.End()
			o.Progress = func(_ string, done, total int) { bar.Set(int64(done), int64(total)) }
			pushed, err := courier.Push(cmd.Context(), o)
			if err != nil {
				return err
			}
			if format.Tabular() {
				fmt.Fprintf(cmd.OutOrStdout(), "%d images, %d layers and configs, %s are in the mirror\n",
					pushed.Images, pushed.Blobs, output.Size(pushed.Bytes))
			}
			signatures, err := importSignatures(cmd.Context(), &appliance.Client, o.Dir, cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("the images are in the mirror, but the signatures of the release were not imported: "+
					"%w", err)
			}
			if !format.Tabular() {
				return format.Document(cmd.OutOrStdout(), "directory", o.Dir, struct {
					*courier.Pushed
					Signatures importedSignatures `json:"signatures"`
				}{pushed, signatures}, nil)
			}
			return signatures.write(cmd.OutOrStdout())
		},
	}
	set := cmd.Flags()
	appliance.AddURLFlag(set)
	set.StringVar(&o.To, "to", "", "the mirror as host or host:port; default: the mirror in the list")
	set.StringVar(&flags.secret, "pull-secret", "",
		"file with credentials that allow pushing, in the format of a pull secret")
	set.StringVar(&flags.ca, "ca", "", "additional CA certificates (PEM) of the mirror")
	set.BoolVar(&o.Insecure, "insecure", false,
		"allow plain HTTP and untrusted certificates")
	format.AddFlag(cmd)
	format.AddFormerFlag(cmd)
	return cmd
}

// importedSignatures reports what happened to the OpenPGP signatures in a courier's directory.
type importedSignatures struct {
	Imported []string `json:"imported"`          // digests of releases
	Command  string   `json:"command,omitempty"` // imports the signatures later; "" if nothing remains
}

func (s importedSignatures) write(out io.Writer) error {
	for _, digest := range s.Imported {
		if _, err := fmt.Fprintf(out, "the appliance has the signatures of release %s\n", digest); err != nil {
			return err
		}
	}
	if s.Command == "" {
		return nil
	}
	_, err := fmt.Fprintf(out, "import the signatures of the release: %s\n", s.Command)
	return err
}

// importSignatures imports the OpenPGP signatures in a courier's directory. Without an appliance
// that the caller may change, it prints the reason and returns the command for later.
func importSignatures(ctx context.Context, c *remote.Client, dir string,
	errOut io.Writer) (importedSignatures, error) {
	result := importedSignatures{Imported: []string{}}
	digests, err := courier.Signed(dir)
	if err != nil || len(digests) == 0 {
		return result, err
	}
	// An import replaces an earlier one of the same name, and the signatures of other releases must
	// remain.
	importName := "courier-signatures-" + strings.TrimPrefix(digests[0], "sha256:")[:12]
	path := filepath.Join(dir, courier.SignaturesDir)
	_, err = rules.Import(ctx, c, &rules.Level{}, importName, path, errOut)
	unreachable, isUnreachable := errors.AsType[*remote.UnreachableError](err)
	answered, isAnswered := errors.AsType[*remote.RefusedError](err)
	switch {
	case err == nil:
		result.Imported = digests
		return result, nil
	case isUnreachable:
		err = unreachable
	case isAnswered && (answered.Status == http.StatusUnauthorized || answered.Status == http.StatusForbidden):
	default:
		return result, err
	}
	result.Command = fmt.Sprintf("landfall mirror import %s --name %s", path, importName)
	_, err = fmt.Fprintf(errOut, "landfall: the signatures of the release were not imported: %s\n", err)
	return result, err
}

// partSize parses a size such as 512MiB.
func partSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, unit := int64(0), ""
	if _, err := fmt.Sscanf(text, "%d%s", &number, &unit); err != nil && unit == "" && number == 0 {
		return 0, outcome.Usagef("--part-size %q is invalid; use a size such as 512MiB or 1GiB", text)
	}
	factor, ok := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
	if !ok || number <= 0 || number > 4<<30/factor {
		return 0, outcome.Usagef("--part-size %q is invalid; use a size such as 512MiB or 1GiB, below 4GiB", text)
	}
	return number * factor, nil
}
