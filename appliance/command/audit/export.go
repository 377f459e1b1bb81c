package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/output"
)

// exporting holds the options of landfall audit export.
type exporting struct {
	trails trails
	to     string
	after  uint64
}

func newExport() *cobra.Command {
	e := new(exporting)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit trail with its signed head, as JSON lines",
		Long: "Write the audit trail with its signed head, as JSON lines. In a fleet, this is the trail of the " +
			"member that leads,\nor of that of --member; the command names the others.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			member, err := e.member(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return e.run(cmd.Context(), member, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	e.trails.addFlags(cmd)
	cmd.Flags().StringVarP(&e.to, "output", "o", "-", "file; - is standard output")
	cmd.Flags().Uint64Var(&e.after, "after", 0, "only the records after this number")
	return cmd
}

// member returns the member whose trail is wanted, or "" on a single machine. If it is the leader
// of a fleet because the person named none, it says which other trails there are.
func (e *exporting) member(ctx context.Context, errOut io.Writer) (string, error) {
	if e.trails.only != "" {
		return e.trails.only, nil
	}
	status, err := e.trails.fleet(ctx)
	if err != nil {
		return "", err
	}
	var others []string
	for _, member := range status.Members {
		if member.Name != status.Leading {
			others = append(others, member.Name)
		}
	}
	if status.Leading != "" && len(others) > 0 {
		fmt.Fprintf(errOut, "This is the audit trail of the member %s, which leads. For those of others, use "+
			"--member: %s\n", status.Leading, strings.Join(others, ", "))
	}
	return status.Leading, nil
}

func (e *exporting) run(ctx context.Context, member string, stdout, errOut io.Writer) (err error) {
	path := path("/export", member, url.Values{"after": {strconv.FormatUint(e.after, 10)}})
	response, err := e.trails.appliance.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode >= http.StatusBadRequest {
		answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return err
		}
		return e.trails.appliance.Refusal(http.MethodGet, path, response, answer)
	}
	to := e.to
	if to == "-" {
		_, err := io.Copy(stdout, response.Body)
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	body, end := output.Metered(errOut, "audit trail", response.Body, response.ContentLength)
	_, err = io.Copy(file, body)
	end()
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", to, errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
