// Package sandbox runs a child process with as few rights as the system allows: in a directory of
// its own, with an explicit environment, as another user, without a network, and without a view of
// other files and processes.
//
// The program first starts itself as a helper, which gives up its rights and then becomes the
// child. Each [Measure] works only if the kernel and the surrounding container allow it. A
// [Sandbox] finds out once which of them work, and logs the result. A measure that works once is
// required later: the child does not start without it.
//
// Design: docs/design.md#child-processes-without-rights.
package sandbox

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
)

// MeasureID identifies a measure.
type MeasureID string

// The measures.
const (
	OtherUser  MeasureID = "other-user" // runs as another user
	Files      MeasureID = "files"      // sees only its directory and the system's programs (mount namespace)
	Processes  MeasureID = "processes"  // sees and signals no other processes (PID namespace)
	NoNetwork  MeasureID = "no-network" // has a network without devices (network namespace)
	Landlock   MeasureID = "landlock"   // may open only its directory and the system's programs (Landlock)
	Calls      MeasureID = "calls"      // may not make sockets, mounts and other system calls (seccomp)
	Privileges MeasureID = "privileges" // has no capabilities and gains none
	Limits     MeasureID = "limits"     // limits of memory, file size and CPU time
)

// explanations says what a missing measure means for a site.
var explanations = map[MeasureID]string{
	OtherUser:  "the program runs as another user than the appliance",
	Files:      "the program sees only its own directory and the system's programs",
	Processes:  "the program sees no other processes, and its children end with it",
	NoNetwork:  "the program has no network",
	Landlock:   "the kernel refuses access to all files but its own (Landlock)",
	Calls:      "the kernel refuses sockets, mounts and other system calls (seccomp)",
	Privileges: "the program has no privileges and can gain none",
	Limits:     "the program's memory, files and CPU time are limited",
}

// Measure is a protection against a child process.
type Measure struct {
	ID          MeasureID `json:"id"`
	Active      bool      `json:"active"`
	Explanation string    `json:"explanation"`
	Reason      string    `json:"reason,omitempty"` // why it is not active
}

// measureIDs are all measures, in the order of reports.
var measureIDs = []MeasureID{OtherUser, Files, Processes, NoNetwork, Landlock, Calls, Privileges, Limits}

// Options configures a [Sandbox]. Dir and Logger are required.
type Options struct {
	// User is the name or the number of the user as which children run if the appliance runs as
	// root; "" is nobody.
	User    string
	Network bool   // children may use the network
	Dir     string // an existing directory for the trial of the measures
	Logger  *slog.Logger
}

// Sandbox starts child processes. Its methods are safe for concurrent use.
type Sandbox struct {
	options Options
	user    owner
	trial   func() plan // runs once
}

// owner is a user and its group. The zero value is the appliance's own user.
type owner struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// plan is the result of a trial.
type plan struct {
	namespaces namespaces
	user       owner
	measures   []Measure
	required   []MeasureID
}

// namespaces are the kinds of namespaces of a child.
type namespaces struct {
	Own   bool // PID, network, IPC and host name
	Files bool // also a mount namespace with a file system of its own
	User  bool // also a user namespace, in which a user may create the others
}

// New returns a sandbox.
func New(options Options) (*Sandbox, error) {
	var err error
	if options.Dir, err = filepath.Abs(options.Dir); err != nil { // children run in other directories
		return nil, err
	}
	s := &Sandbox{options: options}
	if os.Geteuid() == 0 {
		if s.user, err = lookUp(options.User); err != nil {
			return nil, err
		}
	}
	s.trial = sync.OnceValue(func() plan {
		p := s.try()
		var active, missing []string
		for _, m := range p.measures {
			if m.Active {
				active = append(active, string(m.ID))
			} else {
				missing = append(missing, string(m.ID)+": "+m.Reason)
			}
		}
		s.options.Logger.Info("The sandbox of openshift-install was tried.", "active", active, "missing", missing)
		return p
	})
	return s, nil
}

// The numbers of nobody on most systems, for systems that have no such user.
const nobody = 65534

func lookUp(name string) (owner, error) {
	if name == "" {
		return owner{nobody, nobody}, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		if found, err = user.LookupId(name); err != nil {
			return owner{}, fmt.Errorf("the user %q in installer.user does not exist on this machine; create it, or "+
				"remove the key to use nobody", name)
		}
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return owner{}, fmt.Errorf("read the number of the user %q in installer.user: %w", name, err)
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return owner{}, fmt.Errorf("read the group of the user %q in installer.user: %w", name, err)
	}
	if uid == 0 {
		return owner{}, fmt.Errorf("installer.user is %q, which is root; name a user without rights", name)
	}
	return owner{uid, gid}, nil
}

// Measures returns all measures. The first call tries them, which takes some 100 ms.
func (s *Sandbox) Measures() []Measure { return s.trial().measures }

// Command is a child process to start.
type Command struct {
	Program string   // absolute path; for another user, the file must be readable and executable by all
	Args    []string // without the program's name
	Dir     string   // absolute path of the only directory in which the child may write
	Env     []string // the whole environment
}

// View returns the path under which a child finds its directory. The child's arguments and
// environment must use it.
func (s *Sandbox) View(dir string) string {
	if p := s.trial(); p.user != (owner{}) && !p.namespaces.Files {
		// Another user cannot reach the directory by its path, which is below the data directory.
		return "/proc/self/cwd"
	}
	return dir
}

// Give makes the child's user the owner of a directory and its content. It is needed before each
// start, for the files that the appliance wrote. It changes no symbolic links and no files with
// other names.
func (s *Sandbox) Give(dir string) error { return give(dir, s.trial().user) }

func give(dir string, user owner) error {
	if user == (owner{}) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return root.Lchown(name, user.UID, user.GID)
	})
}

// Command returns a child process that has not started. The caller may set its input, output and
// cancelation. It must start the child on a thread that lives until the child has ended, because
// the kernel kills the child with this thread.
func (s *Sandbox) Command(ctx context.Context, c Command) (*exec.Cmd, error) {
	return s.command(ctx, c, s.trial())
}
