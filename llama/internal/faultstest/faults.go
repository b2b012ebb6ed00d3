// Package faultstest crashes the process in native code, on every kind of thread. Tests do that in
// separate processes, to check what they write before they end.
package faultstest

/*
#cgo CXXFLAGS: -std=c++17 -fopenmp
#cgo LDFLAGS: -fopenmp -L${SRCDIR}/../../../lib -lggml-base -lstdc++ -lpthread
#cgo LDFLAGS: -Wl,-rpath,${SRCDIR}/../../../lib

void faults_here(const char * kind, const char * file);
void faults_on_thread(const char * kind, const char * file);
void faults_in_openmp(const char * kind, const char * file);
void faults_many(const char * kind, const char * file);
*/
import "C"

// Here causes a fault of that kind within a call from Go:
//
//	write, jump  to an unmapped address
//	bus          a read from the file, which is mapped and then cut short
//	read         from the address in file
//	divide       by zero
//	illegal      instruction
//	free         of memory that was not allocated
//	throw        without a catch
//	abort, ggml  abort(), and ggml's assertion
func Here(kind, file string) { C.faults_here(C.CString(kind), C.CString(file)) }

// OnThread causes a fault, see Here, on a new thread of C.
func OnThread(kind, file string) { C.faults_on_thread(C.CString(kind), C.CString(file)) }

// InOpenMP causes a fault, see Here, on a worker of OpenMP.
func InOpenMP(kind, file string) { C.faults_in_openmp(C.CString(kind), C.CString(file)) }

// OnMany causes a fault, see Here, on eight threads of C at the same time.
func OnMany(kind, file string) { C.faults_many(C.CString(kind), C.CString(file)) }
