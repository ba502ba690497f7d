package residency

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Trim gives back the pages of the program itself that only its start needed:
// most of a large program is never run, but initialising it touches pages all
// over. They are read only, and come back from the file when they are needed
// after all.
func Trim() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program's file: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read where the program is in memory: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		from, to, ok := readOnly(lines.Text(), exe)
		if !ok {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back the memory at %x: %w", from, errno)
		}
	}
	return lines.Err()
}

// readOnly is the range of addresses of a line of /proc/self/maps, if it is one
// of the program's file that can't be written.
func readOnly(line, exe string) (from, to uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[5] != exe || strings.Contains(fields[1], "w") {
		return 0, 0, false
	}
	if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
		return 0, 0, false
	}
	return from, to, true
}
