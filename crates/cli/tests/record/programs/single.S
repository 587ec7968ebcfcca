// Functions whose first instruction leaves them, or may. Each is called as often as the number
// says that the program ends with: 200 times, and `target` by jumps alone.
        .text
        .globl  main
        .type   main, @function
main:
        .cfi_startproc
        push    %rbx
        .cfi_adjust_cfa_offset 8
        push    %r12
        .cfi_adjust_cfa_offset 8
        xor     %r12d, %r12d
        mov     $200, %ebx
1:      call    only_returns
        call    only_jumps
        add     %eax, %r12d
        xor     %ecx, %ecx
        call    jumps_if_zero
        inc     %ecx
        call    jumps_if_zero
        lea     target(%rip), %rdx
        call    jumps_through
        dec     %ebx
        jne     1b
        mov     %r12d, %eax
        pop     %r12
        .cfi_adjust_cfa_offset -8
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size   main, . - main

        .type   only_returns, @function
only_returns:
        ret
        .size   only_returns, . - only_returns

        .type   only_jumps, @function
only_jumps:
        jmp     target
        .size   only_jumps, . - only_jumps

// The flags are those of the caller.
        .type   jumps_if_zero, @function
jumps_if_zero:
        je      target
        ret
        .size   jumps_if_zero, . - jumps_if_zero

        .type   jumps_through, @function
jumps_through:
        jmp     *%rdx
        .size   jumps_through, . - jumps_through

        .type   target, @function
target:
        mov     $1, %eax
        ret
        .size   target, . - target

        .section .note.GNU-stack, "", @progbits
