// Goroutines whose stacks grow and move, which change threads, panic and recover, while functions
// of theirs are recorded.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

var leaves, deeps, outers int64

//go:noinline
func leaf(i int) int {
	atomic.AddInt64(&leaves, 1)
	if i%3 == 0 {
		runtime.Gosched()
	}
	if i%7 == 0 {
		panic(i)
	}
	return i + 1
}

//go:noinline
func deep(depth, i int) int {
	atomic.AddInt64(&deeps, 1)
	var filled [200]byte
	filled[i%200] = 1
	if depth > 0 {
		return deep(depth-1, i) + int(filled[depth%200])
	}
	return leaf(i)
}

//go:noinline
func outer(i int) (recovered int) {
	atomic.AddInt64(&outers, 1)
	defer func() {
		if recover() != nil {
			recovered = 1
		}
	}()
	deep(i%40, i)
	return 0
}

func main() {
	bufio.NewReader(os.Stdin).ReadString('\n')
	var group sync.WaitGroup
	results := make([]int, 16)
	for worker := range results {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for i := 0; i < 40; i++ {
				results[worker] += outer(i)
				if i%20 == 0 {
					runtime.GC()
				}
			}
		}(worker)
	}
	group.Wait()
	sum := 0
	for _, result := range results {
		sum += result
	}
	fmt.Printf("count main.leaf %d\ncount main.deep %d\ncount main.outer %d\n", leaves, deeps, outers)
	fmt.Println("recovered", sum)
	os.Exit(sum % 7)
}
