// SPDX-License-Identifier: Apache-2.0
// node measure.mjs async-mutex|async-sema uncontended|handoff: prints nanoseconds per operation.
import { Mutex } from 'async-mutex';
import asyncSema from 'async-sema';

const kUncontended = 300_000;
const kTasks = 100;
const kHandoffsPerTask = 2_000;

let count = 0;

function asyncMutex() {
  const mutex = new Mutex();
  return {
    acquire: () => mutex.acquire(),
    release: (release) => release(),
    loop: async (times) => {
      for (let i = 0; i < times; ++i) {
        const release = await mutex.acquire();
        ++count;
        release();
      }
    },
  };
}

function sema() {
  const semaphore = new asyncSema.Sema(1);
  return {
    acquire: () => semaphore.acquire(),
    release: () => semaphore.release(),
    loop: async (times) => {
      for (let i = 0; i < times; ++i) {
        await semaphore.acquire();
        ++count;
        semaphore.release();
      }
    },
  };
}

async function uncontended({ loop }) {
  const start = process.hrtime.bigint();
  await loop(kUncontended);
  return Number(process.hrtime.bigint() - start) / kUncontended;
}

// As the hand-off in C++: whoever releases queues again behind all the others.
async function handoff({ acquire, release, loop }) {
  const held = await acquire();
  const tasks = Array.from({ length: kTasks }, () => loop(kHandoffsPerTask));
  const start = process.hrtime.bigint();
  release(held);
  await Promise.all(tasks);
  return Number(process.hrtime.bigint() - start) / (kTasks * kHandoffsPerTask);
}

const locks = { 'async-mutex': asyncMutex, 'async-sema': sema };
const works = { uncontended, handoff };
const [, , lock, work] = process.argv;
await works[work](locks[lock]());  // Lets the compiler warm up.
const figures = [];
for (let i = 0; i < 3; ++i) {
  figures.push(await works[work](locks[lock]()));
}
figures.sort((a, b) => a - b);
console.log(figures[1]);
