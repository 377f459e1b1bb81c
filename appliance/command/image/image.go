// Package image has the commands on discovery images: download, URL, check.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
)

// New returns the command.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Download and check discovery images, which hosts boot",
		Long: "Download and check discovery images, which hosts boot. The live ISOs from which they are made are the " +
			"subject of landfall iso.",
	}
	cmd.AddCommand(newDownload(), newURL(), newVerify(), newReads(), newShortURL())
	return cmd
}

// source is the image of an infra-env.
type source struct {
	*action.Action
	infraEnv string
}

func (s *source) addFlags(cmd *cobra.Command) {
	s.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&s.infraEnv, "infra-env", "", "infra-env whose image it is")
}

// id returns the ID of the infra-env.
func (s *source) id(ctx context.Context) (string, error) {
	if s.infraEnv == "" {
		return "", outcome.Usagef("--infra-env is missing; landfall infra-env list lists all infra-envs")
	}
	return s.InfraEnvID(ctx, s.infraEnv)
}

// url returns the URL of the image at the address that hosts use.
func (s *source) url(ctx context.Context) (string, error) {
	id, err := s.id(ctx)
	if err != nil {
		return "", err
	}
	var answer struct {
		URL string `json:"url"`
	}
	err = s.Call(ctx, http.MethodGet, remote.InfraEnvPath(id)+"/downloads/image-url", nil, &answer)
	return answer.URL, err
}

// get requests the image, or another file with an ending, from the address that this command uses.
func (s *source) get(ctx context.Context, ending string) (*http.Response, error) {
	address, err := s.url(ctx)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the URL of the image, %s, is invalid: %w", address, err)
	}
	parsed.Path += ending
	path := parsed.EscapedPath()
	if parsed.RawQuery != "" {
		path += "?" + parsed.RawQuery
	}
	response, err := s.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the response of the appliance: %w", err)
	}
	return nil, s.Refusal(http.MethodGet, path, response, text)
}

// digest returns the SHA-256 of the image as the appliance computes it.
func (s *source) digest(ctx context.Context) (string, error) {
	response, err := s.get(ctx, ".sha256")
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", fmt.Errorf("read the digest of the image: %w", err)
	}
	digest, _, _ := strings.Cut(string(text), " ")
	return digest, nil
}

func newDownload() *cobra.Command {
	s := &source{Action: action.New()}
	var file string
	cmd := &cobra.Command{
		Use:   "download --infra-env NAME",
		Short: "Download the image of an infra-env, and check it",
		Long: "Download the image of an infra-env to a file, a disk (-o /dev/sdX) or a pipe (-o -), and compare its " +
			"SHA-256 with that of\nthe appliance.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				file = strings.ReplaceAll(s.infraEnv, "/", "_") + ".iso"
			}
			return s.download(cmd, file)
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "file or disk to write; - is standard output; "+
		"default: the infra-env's name with .iso")
	return cmd
}

func (s *source) download(cmd *cobra.Command, file string) (err error) {
	response, err := s.get(cmd.Context(), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	target, finish, err := output.OpenFile(file, output.Private, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	size, digest, err := s.receive(cmd, response, target)
	if err = finish(err); err != nil {
		return err
	}
	if file == "-" {
		return nil
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, SHA-256 %s\n", file, output.Size(size), digest)
	return err
}

// receive writes the image to a target and compares its digest with that of the appliance.
func (s *source) receive(cmd *cobra.Command, response *http.Response, target io.Writer) (size int64, digest string,
	err error) {
	bar := output.NewMeter(cmd.ErrOrStderr(), "download", response.ContentLength)
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(target, sum, bar), response.Body)
	bar.End()
	if err != nil {
		return 0, "", fmt.Errorf("download the image: %w", err)
	}
	wanted, err := s.digest(cmd.Context())
	if err != nil {
		return 0, "", err
	}
	if digest = hex.EncodeToString(sum.Sum(nil)); digest != wanted {
		return 0, "", fmt.Errorf("the image changed during the download (SHA-256 %s instead of %s); download it again",
			digest, wanted)
	}
	return size, digest, nil
}

func newURL() *cobra.Command {
	s := &source{Action: action.New()}
	var withDigest bool
	cmd := &cobra.Command{
		Use: "url --infra-env NAME", Short: "Show the URL of an infra-env's image, for BMCs and curl",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := s.url(cmd.Context())
			if err != nil {
				return err
			}
			answer := map[string]string{"url": address}
			if withDigest || !s.Format.Tabular() {
				if answer["sha256"], err = s.digest(cmd.Context()); err != nil {
					return err
				}
			}
			if !s.Format.Tabular() {
				text, err := json.Marshal(answer)
				if err != nil {
					return fmt.Errorf("write the URL: %w", err)
				}
				return s.Format.Value(cmd.OutOrStdout(), text)
			}
			fmt.Fprintln(cmd.OutOrStdout(), address)
			if withDigest {
				fmt.Fprintln(cmd.OutOrStdout(), "sha256", answer["sha256"])
			}
			return nil
		},
	}
	s.addFlags(cmd)
	s.Format.AddFlag(cmd)
	cmd.Flags().BoolVar(&withDigest, "sha256", false, "show the digest of the image, too")
	return cmd
}

func newVerify() *cobra.Command {
	s := &source{Action: action.New()}
	cmd := &cobra.Command{
		Use:   "verify FILE --infra-env NAME",
		Short: "Compare a file or USB stick with the present image of an infra-env",
		Long: "Compare a file or a USB stick with the present image of an infra-env. The exit code is 1 if they " +
			"differ: the infra-env was\nchanged after the download, or the file is damaged.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error { return s.verify(cmd, arguments[0]) },
	}
	s.addFlags(cmd)
	return cmd
}

func (s *source) verify(cmd *cobra.Command, file string) (err error) {
	opened, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	response, err := s.get(cmd.Context(), "")
	if err != nil {
		return err
	}
	size := response.ContentLength
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("read the size of the image: %w", err)
	}
	wanted, err := s.digest(cmd.Context())
	if err != nil {
		return err
	}
	bar := output.NewMeter(cmd.ErrOrStderr(), "verify", size)
	sum := sha256.New()
	read, err := io.Copy(io.MultiWriter(sum, bar), io.LimitReader(opened, size)) // a stick is longer than the image
	bar.End()
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	info, err := opened.Stat()
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if digest != wanted || info.Mode().IsRegular() && info.Size() != size {
		return fmt.Errorf("%s is not the present image of %s: it has %d bytes (SHA-256 %s) instead of %d (%s); "+
			"download "+
			"the image again", file, s.infraEnv, read, digest, size, wanted)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is the present image of %s (SHA-256 %s).\n", file, s.infraEnv, wanted)
	return err
}
