// Guest stands in for the discovery agent on an emulated machine that has booted an image. It reads
// the config as the agent's unit has it, registers, reports the inventory, executes steps, and
// writes the image to the disk for the installation. After a boot from that disk it is the
// installed node. It ends with status 0 if the machine must be restarted. The config is its only
// source for the appliance's address.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"landfall/appliance/simulate"
	"landfall/ignition"
)

// stay is the exit status of a machine that must not be restarted.
const stay = 3

func main() {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	config := flag.String("config", "/config.ign", "the config, as Ignition finds it")
	medium := flag.String("medium", "/dev/sr0", "what the machine is up from")
	installed := flag.Bool("installed", false, "the medium is the disk that the machine was installed to")
	speed := flag.Float64("speed", 1, "how much faster than in reality everything goes")
	flag.Parse()
	restart, err := run(context.Background(), log, *config, *medium, *installed, *speed)
	switch {
	case err != nil:
		log.Error("The guest failed.", "error", err)
		os.Exit(1)
	case !restart:
		os.Exit(stay)
	}
}

func run(ctx context.Context, log *slog.Logger, config, medium string, installed bool,
	speed float64) (restart bool, err error) {
	raw, err := os.ReadFile(config)
	if err != nil {
		return false, fmt.Errorf("read the config: %w", err)
	}
	found, err := ignition.ReadDiscovery(raw)
	if err != nil {
		return false, err
	}
	inventory, err := readInventory(os.DirFS("/"))
	if err != nil {
		return false, err
	}
	log.Info("The config was read.", "appliance", found.ServiceURL, "infra_env", found.InfraEnvID, "id", inventory.id,
		"from_disk", installed)
	guest := &simulate.Guest{
		ID: inventory.id, Config: found, Inventory: inventory.Inventory, Speed: speed, Logger: log,
		WriteImage: func(_ context.Context, path string) error { return copyImage(medium, path) },
	}
	return guest.Run(ctx, installed)
}

// copyImage writes the booted image to a disk, which can boot from it like a CD.
func copyImage(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	// larger pieces than usual: each is a request to an emulated drive
	if _, err := io.CopyBuffer(struct{ io.Writer }{target}, struct{ io.Reader }{source},
		make([]byte, 1<<20)); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return target.Sync()
}
